// The feed asks the router each second for what is new.

const KEY = 'gearshift-admin-token';
const PERIOD = 1000;
const PATIENCE = 5000; // for one answer

export class Feed {
  // The listener has: data(d), gone(seconds since the last answer), restarted(), locked(wrong).
  constructor(listener) {
    this.listener = listener;
    this.token = sessionStorage.getItem(KEY) ?? '';
    this.heard = Date.now();
    this.boot = null; // which life of the router answers
    this.forget();
    document.addEventListener('visibilitychange', () => this.wake());
  }

  // forget asks for everything anew.
  forget() {
    this.second = 0;
    this.revision = 0;
  }

  signIn(token) {
    this.token = token;
    this.tried = true;
    this.wake();
  }

  signOut() {
    sessionStorage.removeItem(KEY);
    this.token = '';
    this.tried = false;
    this.wake();
  }

  // wake asks now.
  wake() {
    clearTimeout(this.timer);
    if (document.visibilityState === 'visible') this.ask();
  }

  async ask() {
    if (this.asking) return;
    this.asking = true;
    let wait = PERIOD;
    try {
      await this.once();
    } catch {
      wait = 2 * PERIOD;
      this.listener.gone((Date.now() - this.heard) / 1000);
    } finally {
      this.asking = false;
    }
    clearTimeout(this.timer);
    if (!this.shut && document.visibilityState === 'visible') this.timer = setTimeout(() => this.ask(), wait);
  }

  // order gives an order: path is of the admin API, body what it takes. It resolves to what went wrong, or to nothing.
  async order(path, body) {
    const headers = this.token ? { Authorization: `Bearer ${this.token}` } : {};
    if (body) headers['Content-Type'] = 'application/json';
    try {
      const response = await fetch(`admin/${path}`, { method: 'POST', headers, body: body ? JSON.stringify(body) : null, signal: AbortSignal.timeout(PATIENCE) });
      if (!response.ok) return (await response.json()).error.message;
    } catch {
      return 'The router does not answer.';
    }
    this.wake();
    return '';
  }

  async once() {
    const headers = this.token ? { Authorization: `Bearer ${this.token}` } : {};
    const url = `admin/dashboard?second=${this.second}&revision=${this.revision}`;
    const response = await fetch(url, { headers, cache: 'no-store', signal: AbortSignal.timeout(PATIENCE) });
    this.shut = response.status === 401 || response.status === 403;
    if (this.shut) {
      const fault = await response.json();
      sessionStorage.removeItem(KEY);
      this.listener.locked(response.status === 403 ? fault.error.message : '', Boolean(this.tried));
      return;
    }
    if (!response.ok) throw new Error(response.statusText);
    const data = await response.json();
    if (this.token) sessionStorage.setItem(KEY, this.token);
    this.heard = Date.now();
    if (this.boot !== null && this.boot !== data.boot) {
      this.listener.restarted();
      return;
    }
    this.boot = data.boot;
    this.revision = data.revision;
    this.second = data.seconds.at(-1)?.at ?? this.second;
    this.listener.data(data, Boolean(this.token));
  }
}
