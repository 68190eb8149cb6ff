// What the drivers of this directory share. A driver prints "open URL" when a person must sign in, reads from standard
// input where the browser ended, and prints "ok JSON" with what the application knows of the person.
import readline from 'node:readline';

export const env = process.env;

const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

// open returns where the browser ended that was sent to an address.
export async function open(url) {
	console.log('open ' + url);
	return new URL((await input.next()).value);
}

export function finish(person) {
	console.log('ok ' + JSON.stringify(person));
	process.exit(0);
}

// browser calls the handler of an application as a browser would: with its cookies, and without a network.
export function browser(base, handle) {
	const jar = new Map();
	return async (path, form) => {
		const headers = { cookie: [...jar].map(([k, v]) => `${k}=${v}`).join('; '), origin: new URL(base).origin };
		if (form) headers['content-type'] = typeof form === 'string' ? 'application/json' : 'application/x-www-form-urlencoded';
		const res = await handle(new Request(new URL(path, base), { method: form ? 'POST' : 'GET', headers, body: form }));
		for (const line of res.headers.getSetCookie()) {
			const pair = line.split(';')[0];
			jar.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1));
		}
		return res;
	};
}
