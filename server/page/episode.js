// One episode over the environment's WebSocket: one reply for each request, in order. A connection that drops is
// resumed with the session's token, and the step that ran is sent again under its own id. Every wait has a bound.

const OPEN_S = 20;
const RESET_S = 150; // the server waits up to 120 s for a device
const MARGIN_S = 120;
const TRIES = 5;

export class Refused extends Error {
  constructor(data) {
    super(data.message);
    this.code = data.code;
  }
}

export class Episode {
  #address;
  #stepBound;
  #socket = null;
  #token = null;
  #stopped = false;

  constructor(server, stepTimeout) {
    this.#address = new URL("ws", server);
    this.#address.protocol = this.#address.protocol.replace("http", "ws");
    this.#stepBound = stepTimeout + MARGIN_S;
  }

  // Begins an episode; the observation. Throws Refused.
  async begin(options) {
    this.#socket = this.#living() ?? (await open(this.#address));
    const reply = await this.#ask("reset", options, RESET_S);
    this.#token = reply.metadata.session ?? null;
    return reply;
  }

  // The observation of a submission; null if it was stopped. Throws Refused.
  async submit(code) {
    this.#stopped = false;
    const data = { code, metadata: { request_id: identifier() } };
    for (let attempt = 1; ; attempt++) {
      try {
        this.#socket = this.#living() ?? (await this.#resumed());
        return await this.#ask("step", data, this.#stepBound);
      } catch (error) {
        if (this.#stopped) return null;
        if (error instanceof Refused || !this.#token || attempt === TRIES) throw error;
        await pause(2 ** attempt / 2);
      }
    }
  }

  // Ends the evaluation that runs: the server does so when its client leaves. The episode goes on.
  stop() {
    this.#stopped = true;
    this.end();
  }

  // Frees the place on the server.
  end() {
    this.#socket?.close(1000);
    this.#socket = null;
  }

  #living() {
    return this.#socket?.readyState === WebSocket.OPEN ? this.#socket : null;
  }

  #resumed() {
    const address = new URL(this.#address);
    address.searchParams.set("resume", this.#token);
    return open(address);
  }

  #ask(type, data, bound) {
    const socket = this.#socket;
    return new Promise((resolve, reject) => {
      const settle = (act, value) => {
        clearTimeout(timer);
        socket.onmessage = socket.onclose = null;
        act(value);
      };
      const fail = (message) => {
        if (this.#socket === socket) this.#socket = null;
        socket.close();
        settle(reject, new Error(message));
      };
      const timer = setTimeout(() => fail(`no reply within ${bound} s`), bound * 1000);
      socket.onclose = (event) => fail(event.reason || "the connection was lost");
      socket.onmessage = (event) => {
        const frame = JSON.parse(event.data);
        if (frame.type === "error") settle(reject, new Refused(frame.data));
        else settle(resolve, frame.data);
      };
      if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ type, data }));
      else fail("the connection was lost");
    });
  }
}

function open(address) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(address);
    const fail = () => {
      clearTimeout(timer);
      socket.close();
      reject(new Error("the server can't be reached over a WebSocket, or refused it"));
    };
    const timer = setTimeout(fail, OPEN_S * 1000);
    socket.onerror = fail;
    socket.onopen = () => {
      clearTimeout(timer);
      socket.onerror = null;
      resolve(socket);
    };
  });
}

// Not crypto.randomUUID, which pages without TLS lack.
function identifier() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function pause(seconds) {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000));
}
