// Signs in by @auth/core with the provider in the file OPTIONS, without a framework around it.
import { Auth, skipCSRFCheck } from '@auth/core';
import { browser, env, finish, open } from './driver.mjs';

const { provider } = await import(env.OPTIONS);
const config = {
	providers: [provider], secret: env.AUTH_SECRET, trustHost: true, basePath: '/api/auth', skipCSRFCheck,
	callbacks: {
		jwt: ({ token, user }) => (user ? { ...token, groups: user.groups } : token),
		session: ({ session, token }) => ({ ...session, user: { ...session.user, groups: token.groups } }),
	},
};
const go = browser(env.APP, (req) => Auth(req, config));
const begun = await go('/api/auth/signin/' + provider.id, new URLSearchParams({ callbackUrl: env.APP }));
const back = await open(begun.headers.get('location'));
const done = await go(back.pathname + back.search);
if (done.status !== 302 || done.headers.get('location').includes('error')) throw new Error('refused: ' + done.headers.get('location'));
finish((await (await go('/api/auth/session')).json()).user);
