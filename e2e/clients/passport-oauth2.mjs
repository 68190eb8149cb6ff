// Signs in by passport-oauth2 as Outline uses it: the endpoints by hand, a state, no PKCE, the person from userinfo.
import { Strategy } from 'passport-oauth2';
import { env, finish, open } from './driver.mjs';

const strategy = new Strategy({
	authorizationURL: env.ISSUER + '/oauth/authorize', tokenURL: env.ISSUER + '/oauth/token', callbackURL: env.REDIRECT_URI,
	clientID: env.CLIENT_ID, clientSecret: env.CLIENT_SECRET, scope: env.SCOPE, state: true,
}, async (accessToken, refreshToken, params, profile, done) => {
	const res = await fetch(env.ISSUER + '/oauth/userinfo', { headers: { authorization: 'Bearer ' + accessToken } });
	done(null, { ...(await res.json()), id_token: params.id_token });
});

// passport gives each request a strategy of its own and these ways out of it
function authenticate(req) {
	return new Promise((resolve, reject) => {
		const s = Object.create(strategy);
		s.redirect = (url) => resolve(url);
		s.success = (user) => resolve(user);
		s.fail = (challenge) => reject(new Error('refused: ' + challenge?.message));
		s.error = reject;
		s.authenticate(req, {});
	});
}

const session = {};
const back = await open(await authenticate({ session, query: {} }));
const { id_token: hint, ...user } = await authenticate({ session, query: Object.fromEntries(back.searchParams) });
const logout = env.ISSUER + '/oauth/logout?' + new URLSearchParams({ id_token_hint: hint, client_id: env.CLIENT_ID, post_logout_redirect_uri: env.LOGOUT_URI });
finish({ ...user, logout });
