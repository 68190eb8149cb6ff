// Drives openid-client with a certificate: the client authenticates by it at the addresses that the metadata name for that, and its
// tokens are bound to it. Prints "ok STEP" for each step that held and "fail STEP: reason" for the others.
import { webcrypto } from 'node:crypto';
import { readFileSync } from 'node:fs';
import https from 'node:https';

globalThis.crypto ??= webcrypto; // Node.js 18 keeps it behind a flag
const oidc = await import('openid-client');

const env = process.env;
let failed = false;

async function step(name, f) {
	try {
		await f();
		console.log('ok ' + name);
	} catch (e) {
		failed = true;
		console.log(`fail ${name}: ${e.name} ${e.message} ${e.code ?? ''} ${e.error ?? e.cause?.message ?? ''} ${e.error_description ?? ''}`);
	}
}

function expect(holds, what) {
	if (!holds) throw new Error('expected ' + what);
}

// over is a fetch by connections with a certificate, or without one.
function over(certificate) {
	const files = certificate ? { cert: readFileSync(`${env.DIR}/${certificate}.pem`), key: readFileSync(`${env.DIR}/${certificate}.key`) } : {};
	const agent = new https.Agent({ ca: readFileSync(env.DIR + '/cert.pem'), ...files });
	return (url, { method, headers, body }) => new Promise((resolve, reject) => {
		const request = https.request(url, { agent, method, headers: Object.fromEntries(new Headers(headers)) }, response => {
			const parts = [];
			response.on('data', part => parts.push(part)).on('end', () => {
				const empty = [204, 304].includes(response.statusCode);
				resolve(new Response(empty ? null : Buffer.concat(parts), { status: response.statusCode, headers: response.headers }));
			}).on('error', reject);
		}).on('error', reject);
		request.end(body ? String(body) : undefined);
	});
}

const discover = (id, certificate, auth) => oidc.discovery(new URL(env.ISSUER), id, { use_mtls_endpoint_aliases: true }, auth, { [oidc.customFetch]: over(certificate) });
const scope = env.SCOPE;
let token;

await step('token', async () => {
	const robot = await discover('robot', 'robot', oidc.TlsClientAuth());
	const t = await oidc.clientCredentialsGrant(robot, { scope });
	expect(t.token_type === 'bearer', 'a bearer token, got ' + t.token_type);
	token = t.access_token;
	console.log('secret ' + token);
});
await step('bound', async () => {
	const api = await discover('ops', undefined, oidc.ClientSecretBasic(env.API_CLIENT_SECRET));
	const about = await oidc.tokenIntrospection(api, token);
	expect(about.active && about.cnf['x5t#S256'] === env.THUMBPRINT, 'cnf of the certificate, got ' + JSON.stringify(about.cnf));
});
await step('site', async () => {
	for (const [certificate, want] of [['robot', 200], ['thief', 401], [undefined, 401]]) {
		const client = await discover('robot', certificate, oidc.TlsClientAuth());
		const status = await oidc.fetchProtectedResource(client, token, new URL(env.API), 'GET').then(r => r.status, e => e.status ?? e.response?.status);
		expect(status === want, `${want} with the certificate of ${certificate ?? 'nobody'}, got ${status}`);
	}
});
await step('thief', async () => {
	for (const certificate of ['thief', undefined]) {
		const client = await discover('robot', certificate, oidc.TlsClientAuth());
		const error = await oidc.clientCredentialsGrant(client, { scope }).then(() => undefined, e => e);
		expect(error?.status === 401, `401 with the certificate of ${certificate ?? 'nobody'}, got ${error?.status ?? 'a token'}`);
	}
});
process.exit(failed ? 1 : 0);
