// Serves npm's oidc-provider: an OpenID provider that others have written. Its pages stand below, since its own load fonts from elsewhere.
// Any name and password are good, and nobody is asked for consent. Claims are at userinfo only. Settings: PORT, GATEHOUSE (the address of the server under test). Its clients are called like the
// providers that the server knows it as: basic, post, key (private_key_jwt) and sealed (everything encrypted).
import { webcrypto } from 'node:crypto';

globalThis.crypto ??= webcrypto; // Node.js 18 keeps it behind a flag
const { default: Provider } = await import('oidc-provider');

const { PORT, GATEHOUSE, SECRET } = process.env;
const issuer = `http://localhost:${PORT}`;
const at = (id, op) => `${GATEHOUSE}/oidc/${id}/${op}`;

function client(id, more) {
	return {
		client_id: id, redirect_uris: [at(id, 'callback')], post_logout_redirect_uris: [at(id, 'signed-out')],
		grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
		backchannel_logout_uri: at(id, 'backchannel-logout'), backchannel_logout_session_required: true, ...more,
	};
}

const page = (title, content) => `<!doctype html><html lang="en"><title>${title}</title><h1>${title}</h1>${content}`;

async function allow(ctx) {
	const { client, session, params, provider: op } = ctx.oidc;
	const grant = new op.Grant({ clientId: client.clientId, accountId: session.accountId });
	grant.addOIDCScope(params.scope);
	await grant.save();
	return grant;
}

let renamed = ''; // POST /test/rename changes everybody's name, as time does

const provider = new Provider(issuer, {
	clients: [
		client('basic', { client_secret: SECRET }),
		client('post', { client_secret: SECRET, token_endpoint_auth_method: 'client_secret_post' }),
		client('key', { token_endpoint_auth_method: 'private_key_jwt', jwks_uri: at('key', 'jwks') }),
		client('sealed', {
			token_endpoint_auth_method: 'private_key_jwt', jwks_uri: at('sealed', 'jwks'), userinfo_signed_response_alg: 'RS256',
			id_token_encrypted_response_alg: 'RSA-OAEP-256', id_token_encrypted_response_enc: 'A256GCM',
			userinfo_encrypted_response_alg: 'RSA-OAEP', userinfo_encrypted_response_enc: 'A128CBC-HS256',
		}),
	],
	pkce: { required: () => true },
	enabledJWA: {
		idTokenEncryptionAlgValues: ['RSA-OAEP', 'RSA-OAEP-256'], userinfoEncryptionAlgValues: ['RSA-OAEP', 'RSA-OAEP-256'],
	},
	features: {
		devInteractions: { enabled: false },
		rpInitiatedLogout: {
			enabled: true,
			logoutSource: async (ctx, form) => { ctx.body = page('Sign out?', `${form}<button form="op.logoutForm" name="logout" value="yes">Yes</button>`); },
			postLogoutSuccessSource: async (ctx) => { ctx.body = page('Signed out', ''); },
		},
		backchannelLogout: { enabled: true },
		userinfo: { enabled: true }, jwtUserinfo: { enabled: true }, encryption: { enabled: true }, claimsParameter: { enabled: true },
	},
	claims: { openid: ['sub'], profile: ['name', 'preferred_username'], email: ['email', 'email_verified'], groups: ['groups'] },
	scopes: ['openid', 'offline_access', 'profile', 'email', 'groups'],
	acrValues: [],
	// it refuses loopback addresses, where the server under test is
	fetch: (url, { dispatcher, ...options }) => globalThis.fetch(url, options),
	interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
	loadExistingGrant: allow,
	issueRefreshToken: async () => true,
	rotateRefreshToken: true,
	findAccount: async (ctx, id) => ({
		accountId: id,
		claims: async () => ({
			sub: id, name: renamed || `${id[0].toUpperCase()}${id.slice(1)} Example`, preferred_username: id, email: `${id}@example.org`,
			email_verified: id !== 'mallory', groups: ['engineering', 'admins'],
		}),
	}),
	cookies: { keys: ['a key of the test'] },
});
async function form(req) {
	let text = '';
	for await (const chunk of req) text += chunk;
	return new URLSearchParams(text);
}

provider.use(async (ctx, next) => {
	if (ctx.method === 'POST' && ctx.path === '/test/rename') {
		renamed = ctx.query.name;
		ctx.status = 204;
		return;
	}
	if (!ctx.path.startsWith('/interaction/')) return next();
	const { uid, prompt } = await provider.interactionDetails(ctx.req, ctx.res);
	if (ctx.path.endsWith('/abort')) {
		ctx.respond = false;
		return provider.interactionFinished(ctx.req, ctx.res, { error: 'access_denied', error_description: 'the person has cancelled' });
	}
	if (prompt.name !== 'login') throw new Error(`nothing is there for the prompt ${prompt.name}: ${JSON.stringify(prompt)}`);
	if (ctx.method === 'POST') {
		ctx.respond = false;
		return provider.interactionFinished(ctx.req, ctx.res, { login: { accountId: (await form(ctx.req)).get('login') } });
	}
	ctx.body = page('Sign in', `<form method="post"><input name="login" aria-label="Name"><input name="password" type="password" aria-label="Password">
		<button type="submit">Sign in</button></form><a href="/interaction/${uid}/abort">Cancel</a>`);
});
provider.on('server_error', (ctx, e) => console.error('server_error', e));
for (const event of ['grant.error', 'authorization.error', 'userinfo.error', 'backchannel.error', 'end_session.error']) {
	provider.on(event, (...args) => console.error(event, args.find((a) => a instanceof Error)?.error_description ?? args.find((a) => a instanceof Error)?.message));
}
provider.listen(PORT, 'localhost', () => console.log('listening'));
