// npm's oidc-provider with its own store in memory, for `make bench`. Settings: PORT, SECRET.
const { default: Provider } = await import('oidc-provider');

const { PORT, SECRET } = process.env;
const provider = new Provider(`http://localhost:${PORT}`, {
	clients: [{ client_id: 'bench', client_secret: SECRET, grant_types: ['client_credentials'], redirect_uris: [], response_types: [] }],
	features: { clientCredentials: { enabled: true }, devInteractions: { enabled: false } },
	cookies: { keys: ['a key of the benchmark'] },
});
provider.listen(Number(PORT), '127.0.0.1');
