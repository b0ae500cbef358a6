import { useEffect, useState } from "react";

/** Fetches `url` every `interval` milliseconds. */
export function usePolling<T>(url: string, interval: number) {
  const [data, setData] = useState<T>();
  const [error, setError] = useState<Error>();

  useEffect(() => {
    const tick = () =>
      fetch(url)
        .then((response) => response.json())
        .then(setData)
        .catch(setError);
    tick();
    setInterval(tick, interval);
  }, [url, interval]);

  return { data, error };
}
