// A Notify server with an empty database, and fake providers that it sends to. Needs the command
// `notify-server` in the PATH, or its path in NOTIFY_SERVER.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export interface Message {
  platform: string;
  title: string | null;
  text: string | null;
  url: string | null;
}

interface Started {
  url: string;
  api_key: string;
  control_url: string;
}

export async function call(method: string, url: string, body?: unknown, headers = {}): Promise<any> {
  const json = body === undefined ? undefined : JSON.stringify(body);
  const answer = await fetch(url, { method, headers, body: json });
  if (!answer.ok) throw new Error(`${method} ${url}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

export class NotifyServer {
  private constructor(
    private readonly process: ChildProcess,
    private readonly started: Started,
  ) {}

  static async start(): Promise<NotifyServer> {
    const program = process.env.NOTIFY_SERVER ?? "notify-server";
    const server = spawn(program, ["sandbox", "--with-server", "--listen", "127.0.0.1:0"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    // The first line has the urls and the keys.
    const [line] = await once(createInterface(server.stdout), "line");
    return new NotifyServer(server, JSON.parse(line));
  }

  async stop(): Promise<void> {
    this.process.kill();
    await once(this.process, "exit");
  }

  get url(): string {
    return this.started.url;
  }

  get apiKey(): string {
    return this.started.api_key;
  }

  async android(device_id: string): Promise<void> {
    const device = {
      device_id,
      platform: "android",
      sdk_type: "android_push",
      push_token: `token-of-${device_id}`,
    };
    await call("POST", `${this.url}/v1/devices`, device, { "X-API-Key": this.apiKey });
  }

  /** Waits until the server has sent everything that is due. */
  async deliveredTo(device_id: string): Promise<Message[]> {
    const query = new URLSearchParams({ device_id });
    return (await call("GET", `${this.started.control_url}/delivered?${query}`)).messages;
  }

  async failNext(device_id: string, failure: string, times: number): Promise<void> {
    await call("POST", `${this.started.control_url}/failures`, { device_id, failure, times });
  }

  async advance(seconds: number): Promise<void> {
    await call("POST", `${this.started.control_url}/advance`, { seconds });
  }
}
