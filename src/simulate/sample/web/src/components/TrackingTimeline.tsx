import React from "react";
import { usePolling } from "../hooks/usePolling";

interface Event {
  occurredAt: string;
  status: string;
  place: string;
}

/** The journey of one parcel, in the order of the API: newest event first. */
export function TrackingTimeline({ number }: { number: string }) {
  const { data, error } = usePolling<{ events: Event[] }>(`/api/tracking/${number}`, 30000);
  if (error) return <p role="alert">Tracking is not available right now.</p>;
  if (!data) return <p>Loading…</p>;
  return (
    <ol className="timeline">
      {data.events.map((event, index) => (
        <li key={index} className={index === 0 ? "current" : ""}>
          <time>{new Date(event.occurredAt).toLocaleString()}</time>
          <span>{event.status}</span> {event.place}
        </li>
      ))}
    </ol>
  );
}
