// Drives the client of the MCP TypeScript SDK against a server behind Gatehouse: it finds the authorization server, is known by
// registering itself or by its metadata document, gets tokens, refreshes them and asks for more scopes. Prints "open URL" or
// "consent URL" when a person must decide, and reads from standard input where the browser ended; prints "ok STEP" for each step.
import readline from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';

const env = process.env;
const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
let signedIn = false;

class Provider {
	constructor(documentURL) {
		this.clientMetadataUrl = documentURL;
	}
	get redirectUrl() {
		return env.REDIRECT_URI;
	}
	get clientMetadata() {
		return {
			client_name: 'SDK', redirect_uris: [env.REDIRECT_URI], grant_types: ['authorization_code', 'refresh_token'],
			response_types: ['code'], token_endpoint_auth_method: 'none',
		};
	}
	clientInformation() {
		return this.client;
	}
	saveClientInformation(client) {
		this.client = client;
	}
	tokens() {
		return this.saved;
	}
	saveTokens(tokens) {
		this.saved = tokens;
		for (const name of ['access_token', 'refresh_token']) {
			if (tokens[name]) console.log('secret ' + tokens[name]);
		}
	}
	redirectToAuthorization(url) {
		console.log((signedIn ? 'consent ' : 'open ') + url.href);
		signedIn = true;
	}
	saveCodeVerifier(verifier) {
		this.verifier = verifier;
	}
	codeVerifier() {
		return this.verifier;
	}
}

function expect(holds, what) {
	if (!holds) throw new Error('expected ' + what);
}

async function answer() {
	return new URL((await input.next()).value).searchParams.get('code');
}

// connect returns a client that is connected, and asks the person if it must.
async function connect(provider, beforeRedeem) {
	const transport = new StreamableHTTPClientTransport(new URL(env.RESOURCE), { authProvider: provider });
	const client = new Client({ name: 'e2e', version: '1' });
	try {
		await client.connect(transport);
	} catch (e) {
		if (!(e instanceof UnauthorizedError)) throw e;
		const code = await answer();
		await beforeRedeem?.();
		await transport.finishAuth(code);
		return connect(provider);
	}
	return { client, transport };
}

async function call({ client, transport }, name) {
	try {
		return await client.callTool({ name, arguments: {} });
	} catch (e) {
		if (!(e instanceof UnauthorizedError)) throw e;
		await transport.finishAuth(await answer());
		return client.callTool({ name, arguments: {} });
	}
}

const registered = new Provider();
let open = await connect(registered);
expect(registered.client.client_id && !registered.client.client_secret, 'a public client');
expect((await open.client.listTools()).tools.length === 2, 'two tools');
console.log('ok registration');

await call(open, 'read');
const before = registered.saved.refresh_token;
expect(before, 'a refresh token');
registered.saved = { ...registered.saved, access_token: 'expired' };
await call(open, 'read');
expect(registered.saved.refresh_token !== before, 'another refresh token');
console.log('ok refresh');

expect(!registered.saved.scope.includes('tools.write'), 'no scope before it is asked for');
// The SDK refreshes where it has a refresh token, which adds no scope, and gives up: without one it asks the person.
registered.saved = { ...registered.saved, refresh_token: undefined };
await call(open, 'delete_file');
expect(registered.saved.scope.includes('tools.write') && registered.saved.scope.includes('tools.read'), 'both scopes, not ' + registered.saved.scope);
console.log('ok step_up');
await open.client.close();

const documented = new Provider(env.DOCUMENT);
open = await connect(documented, async () => {
	console.log('change'); // the document names another redirect URI from now on
	await input.next();
});
expect(documented.client.client_id === env.DOCUMENT, 'a client id that is an address');
expect((await open.client.listTools()).tools.length === 2, 'two tools');
await open.client.close();
console.log('ok document');
process.exit(0);
