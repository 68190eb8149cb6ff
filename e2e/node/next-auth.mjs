// Hosts next-auth without Next.js: its handler gets what Next.js hands it, and GET / says who is signed in. OPTIONS is the
// file with authOptions. Prints "ready" once it listens.
import express from 'express';
import nextAuth, { getServerSession } from 'next-auth';

const { authOptions } = await import(process.env.OPTIONS);
const handle = nextAuth.default ?? nextAuth;
const app = express();

app.use(express.urlencoded({ extended: false }), express.json());
app.use((req, res, next) => {
	const pairs = (req.headers.cookie ?? '').split(/; */).filter(Boolean).map((c) => [c.slice(0, c.indexOf('=')), decodeURIComponent(c.slice(c.indexOf('=') + 1))]);
	req.cookies = Object.fromEntries(pairs);
	next();
});
app.all('/api/auth/*nextauth', (req, res) => {
	Object.defineProperty(req, 'query', { value: { ...req.query, nextauth: req.params.nextauth } });
	return handle(req, res, authOptions);
});
app.get('/', async (req, res) => {
	res.json((await getServerSession(req, res, authOptions)) ?? {});
});
app.listen(new URL(process.env.NEXTAUTH_URL).port, 'localhost', () => console.log('ready'));
