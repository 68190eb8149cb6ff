// Drives openid-client through the endpoints that an application uses. Prints "open URL" when a person must sign in and reads from
// standard input where the browser ended; prints "ok STEP" for each step that held and "fail STEP: reason" for the others.
import readline from 'node:readline';
import { webcrypto } from 'node:crypto';

globalThis.crypto ??= webcrypto; // Node.js 18 keeps it behind a flag
const oidc = await import('openid-client');

const env = process.env;
const insecure = { execute: [oidc.allowInsecureRequests] }; // plain http on this machine
const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
let failed = false;

async function step(name, f) {
	try {
		const value = await f();
		console.log('ok ' + name);
		return value;
	} catch (e) {
		failed = true;
		console.log(`fail ${name}: ${e.name} ${e.message} ${e.code ?? ''} ${e.error ?? e.cause?.error ?? ''} ${e.error_description ?? ''}`);
	}
}

function expect(holds, what) {
	if (!holds) throw new Error('expected ' + what);
}

function remember(tokens) {
	for (const name of ['access_token', 'refresh_token', 'id_token']) {
		if (tokens[name]) console.log('secret ' + tokens[name]);
	}
	return tokens;
}

const client = await step('discovery', () => oidc.discovery(new URL(env.ISSUER), env.CLIENT_ID, undefined, oidc.ClientSecretBasic(env.CLIENT_SECRET), insecure));
if (!client) process.exit(1);
const api = await oidc.discovery(new URL(env.ISSUER), env.API_CLIENT_ID, undefined, oidc.ClientSecretBasic(env.API_CLIENT_SECRET), insecure);

let tokens = await step('code', async () => {
	const pkceCodeVerifier = oidc.randomPKCECodeVerifier(), expectedState = oidc.randomState(), expectedNonce = oidc.randomNonce();
	const url = oidc.buildAuthorizationUrl(client, {
		redirect_uri: env.REDIRECT_URI, scope: env.SCOPE, state: expectedState, nonce: expectedNonce,
		code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: 'S256',
	});
	console.log('open ' + url.href);
	const { value } = await input.next();
	const t = await oidc.authorizationCodeGrant(client, new URL(value), { pkceCodeVerifier, expectedState, expectedNonce, idTokenExpected: true });
	expect(t.refresh_token, 'a refresh token');
	return remember(t);
});
if (!tokens) process.exit(1);
const subject = tokens.claims().sub;

await step('userinfo', async () => {
	const info = await oidc.fetchUserInfo(client, tokens.access_token, tokens.claims().sub);
	expect(info.preferred_username === env.PERSON, 'preferred_username ' + env.PERSON);
});
await step('introspect', async () => {
	const t = await oidc.tokenIntrospection(api, tokens.access_token);
	expect(t.active === true && t.client_id === env.CLIENT_ID, 'an active token of the client');
});
await step('refresh', async () => {
	const next = remember(await oidc.refreshTokenGrant(client, tokens.refresh_token));
	expect(next.refresh_token !== tokens.refresh_token, 'another refresh token');
	tokens = { ...tokens, ...next };
});
await step('introspect_revoked', async () => {
	await oidc.tokenRevocation(client, tokens.access_token);
	expect((await oidc.tokenIntrospection(api, tokens.access_token)).active === false, 'a revoked token to be inactive');
});
await step('refresh_revoked', async () => {
	await oidc.tokenRevocation(client, tokens.refresh_token, { token_type_hint: 'refresh_token' });
	const error = await oidc.refreshTokenGrant(client, tokens.refresh_token).then(() => undefined, e => e);
	expect(error?.error === 'invalid_grant', 'invalid_grant, got ' + (error?.error ?? error?.message ?? 'tokens'));
});
await step('client_credentials', async () => {
	remember(await oidc.clientCredentialsGrant(client, { scope: env.SCOPE.split(' ').at(-1) }));
});
await step('device', async () => {
	const begun = await oidc.initiateDeviceAuthorization(client, { scope: env.SCOPE });
	console.log('device ' + begun.verification_uri_complete);
	const t = remember(await oidc.pollDeviceAuthorizationGrant(client, begun));
	expect(t.claims().sub === subject && t.refresh_token, 'tokens of the person who allowed it');
});
await step('par', async () => {
	const pkceCodeVerifier = oidc.randomPKCECodeVerifier(), expectedState = oidc.randomState(), expectedNonce = oidc.randomNonce();
	const url = await oidc.buildAuthorizationUrlWithPAR(client, {
		redirect_uri: env.REDIRECT_URI, scope: env.SCOPE, state: expectedState, nonce: expectedNonce,
		code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: 'S256',
	});
	expect(url.searchParams.get('request_uri') && !url.searchParams.has('scope'), 'an address without the scope, got ' + url.href);
	console.log('go ' + url.href);
	const { value } = await input.next();
	remember(await oidc.authorizationCodeGrant(client, new URL(value), { pkceCodeVerifier, expectedState, expectedNonce, idTokenExpected: true }));
});
await step('signed', async () => {
	const [sig, enc] = JSON.parse(env.SIGNER_KEYS).keys;
	const read = ({ use, ...jwk }, algorithm, uses) => crypto.subtle.importKey('jwk', jwk, algorithm, false, uses);
	const signing = { key: await read(sig, { name: 'ECDSA', namedCurve: 'P-256' }, ['sign']), kid: sig.kid };
	const opening = { key: await read(enc, { name: 'ECDH', namedCurve: 'P-256' }, ['deriveBits']), kid: enc.kid, alg: 'ECDH-ES' };
	const metadata = { authorization_signed_response_alg: 'ES256', id_token_signed_response_alg: 'ES256' };
	const signer = await oidc.discovery(new URL(env.ISSUER), 'signer', metadata, oidc.PrivateKeyJwt(signing), insecure);
	oidc.useJwtResponseMode(signer);
	oidc.enableDecryptingResponses(signer, ['A256GCM'], opening);
	for (const push of [false, true]) {
		const pkceCodeVerifier = oidc.randomPKCECodeVerifier(), expectedState = oidc.randomState(), expectedNonce = oidc.randomNonce();
		let url = await oidc.buildAuthorizationUrlWithJAR(signer, {
			redirect_uri: env.REDIRECT_URI, scope: 'openid profile', state: expectedState, nonce: expectedNonce,
			code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: 'S256',
		}, signing);
		if (push) url = await oidc.buildAuthorizationUrlWithPAR(signer, url.searchParams);
		expect(!url.searchParams.has('scope') && !url.searchParams.has('state'), 'an address without the scope, got ' + url.href);
		console.log('go ' + url.href);
		const answer = new URL((await input.next()).value);
		expect(answer.searchParams.has('response') && !answer.searchParams.has('code'), 'a signed response, got ' + answer.href);
		const t = remember(await oidc.authorizationCodeGrant(signer, answer, { pkceCodeVerifier, expectedState, expectedNonce, idTokenExpected: true }));
		expect(t.claims().sub === subject && t.id_token.split('.').length === 5, 'an ID token that is encrypted');
	}
});
await step('dpop', async () => {
	const DPoP = oidc.getDPoPHandle(client, await oidc.randomDPoPKeyPair('ES256'));
	const pkceCodeVerifier = oidc.randomPKCECodeVerifier(), expectedState = oidc.randomState();
	const url = await oidc.buildAuthorizationUrlWithPAR(client, {
		redirect_uri: env.REDIRECT_URI, scope: env.SCOPE, state: expectedState,
		code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: 'S256',
	}, { DPoP });
	console.log('go ' + url.href);
	const t = remember(await oidc.authorizationCodeGrant(client, new URL((await input.next()).value), { pkceCodeVerifier, expectedState }, undefined, { DPoP }));
	expect(t.token_type === 'dpop', 'a token of type DPoP, got ' + t.token_type);
	expect((await oidc.fetchUserInfo(client, t.access_token, subject, { DPoP })).sub === subject, 'userinfo');
	const ask = async options => (await oidc.fetchProtectedResource(client, t.access_token, new URL(env.API), 'GET', null, undefined, options)).status;
	expect(await ask({ DPoP }) === 200, 'the site to take the token with its proof');
	const refused = await ask().catch(e => e.status ?? e.cause?.[0]?.parameters?.error ?? e.message);
	expect(refused !== 200, 'the site to refuse the token without a proof');
	const next = remember(await oidc.refreshTokenGrant(client, t.refresh_token, undefined, { DPoP }));
	expect(next.token_type === 'dpop', 'a refreshed token of type DPoP');
	const about = await oidc.tokenIntrospection(api, next.access_token);
	expect(about.cnf?.jkt === await DPoP.calculateThumbprint(), 'cnf.jkt of the key');
});
await step('dpop_nonce', async () => {
	// Its clock is a day behind: it goes on with the nonce that it is given.
	const late = await oidc.discovery(new URL(env.ISSUER), env.CLIENT_ID, { [oidc.clockSkew]: -86400 }, oidc.ClientSecretBasic(env.CLIENT_SECRET), insecure);
	const DPoP = oidc.getDPoPHandle(late, await oidc.randomDPoPKeyPair('ES256'));
	const t = remember(await oidc.clientCredentialsGrant(late, { scope: env.SCOPE.split(' ').at(-1) }, { DPoP }));
	expect(t.token_type === 'dpop', 'a token of type DPoP, got ' + t.token_type);
	const other = oidc.getDPoPHandle(late, await oidc.randomDPoPKeyPair('ES256'));
	for (const [handle, want] of [[DPoP, 200], [other, 401]]) {
		const status = await oidc.fetchProtectedResource(late, t.access_token, new URL(env.API), 'GET', null, undefined, { DPoP: handle }).then(r => r.status, e => e.status ?? e.response?.status ?? 401);
		expect(status === want, `the site to answer ${want}, got ${status}`);
	}
});
await step('logout_url', async () => {
	expect(oidc.buildEndSessionUrl(client, { id_token_hint: tokens.id_token }).origin === new URL(env.ISSUER).origin, 'the end-session endpoint at the issuer');
});
process.exit(failed ? 1 : 0);
