// Asks for pages again and again: one question at a time, none while nobody looks.

const PATIENCE = 5000;

export class ServerError extends Error {}

export async function ask(path, options = {}) {
  const patience = { signal: AbortSignal.timeout(PATIENCE), cache: "no-store" };
  const response = await fetch(path, { ...patience, ...options });
  if (response.ok) return response.json();
  const problem = await response.json().catch(() => ({}));
  throw new ServerError(problem.error ?? `status ${response.status}`);
}

export class Polling {
  #timer = null;
  #asking = false;
  #paused = false;

  constructor(interval, round) {
    this.interval = interval;
    this.round = round;
    document.addEventListener("visibilitychange", () => this.#next(0));
  }

  start() {
    this.#next(0);
  }

  set paused(paused) {
    this.#paused = paused;
    this.#next(0);
  }

  #next(wait) {
    clearTimeout(this.#timer);
    if (this.#paused || document.hidden || this.#asking) return;
    this.#timer = setTimeout(() => this.#run(), wait);
  }

  async #run() {
    this.#asking = true;
    try {
      await this.round();
    } finally {
      this.#asking = false;
      this.#next(this.interval);
    }
  }
}
