import React from "react";
import { usePolling } from "../hooks/usePolling";

interface Event {
  at: string;
  status: string;
  place: string;
}

/** The journey of one parcel, newest event first, refreshed while the page is open. */
export function TrackingTimeline({ number }: { number: string }) {
  const { data, error } = usePolling<{ events: Event[] }>(`/api/tracking/${number}`, 5000);
  if (error) return <p role="alert">Tracking is not available right now.</p>;
  if (!data) return <p>Loading…</p>;
  return (
    <ol className="timeline">
      {data.events.map((event, index) => (
        <li key={index} className={index === 0 ? "current" : ""}>
          <time>{new Date(event.at).toLocaleString()}</time>
          <span style={{ color: "#9a9a9a" }}>{event.status}</span> {event.place}
        </li>
      ))}
    </ol>
  );
}
