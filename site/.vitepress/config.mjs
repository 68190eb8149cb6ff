import fs from 'node:fs';
import { defineConfig } from 'vitepress';

// pages are the documents of a directory by their titles, in the order of their file names.
function pages(dir) {
	return fs.readdirSync('.src/' + dir).filter((f) => f.endsWith('.md')).sort().map((f) => ({
		text: fs.readFileSync(`.src/${dir}/${f}`, 'utf8').match(/^# (.*)$/m)[1].replaceAll('`', ''),
		link: `/${dir}/${f.slice(0, -3)}`,
	}));
}

// reports are the newest report of each kind: their names are DATE-KIND.md.
function reports() {
	const newest = new Map(pages('reports').map((p) => [p.link.slice('/reports/2026-11-30-'.length), p]));
	return [...newest.values()];
}

const page = (link) => ({ text: fs.readFileSync(`.src/${link}.md`, 'utf8').match(/^# (.*)$/m)[1].replaceAll('`', ''), link: '/' + link });
const group = (text, links, dirs = []) => ({
	text, collapsed: true,
	items: [...links.map(page), ...dirs.map(([title, dir]) => ({ text: title, collapsed: true, items: pages(dir) }))],
});

const sidebar = [
	{ text: 'Start', items: pages('start') },
	group('Guides', ['guide', 'persons', 'openid-providers', 'saml', 'saml-service-providers', 'ldap', 'kerberos', 'passkeys', 'device-bound-sessions', 'qr-sign-in', 'mcp',
		'robots', 'limits', 'assertion', 'workloads', 'certificates', 'shared-signals', 'words', 'modules'], [['Experimental', 'experimental']]),
	group('Integrations', ['integrations', 'gateways', 'envoy', 'moving-in'], [['Applications', 'integrations'], ['Moving from', 'moving']]),
	group('Operate', ['operation', 'console', 'postgres', 'cluster', 'observability', 'audit', 'troubleshooting', 'versions']),
	group('Reference', ['caddyfile', 'commands', 'configuration', 'events', 'api', 'api-details', 'credentials'],
		[['Caddyfile by block', 'caddyfile'], ['Commands', 'commands'], ['Settings', 'configuration'], ['Events', 'events'], ['APIs', 'api']]),
	group('Why it works so', ['hardening', 'post-quantum', 'performance', 'decisions', 'attacks'], [['Decisions', 'decisions'], ['Attacks', 'attacks'], ['Records', 'adr']]),
	{ text: 'What was measured and tried', collapsed: true, items: reports() },
];

// Every page but the start page, the list of all documents and older reports has its place.
const listed = new Set(JSON.stringify(sidebar).match(/"link":"[^"]+"/g).map((l) => l.slice('"link":"/'.length, -1) + '.md'));
for (const f of fs.readdirSync('.src', { recursive: true })) {
	if (f.endsWith('.md') && !f.startsWith('reports/') && !['index.md', 'documents.md'].includes(f) && !listed.has(f)) {
		throw new Error(`${f} is not in the sidebar of .vitepress/config.mjs`);
	}
}

export default defineConfig({
	title: 'Gatehouse', description: 'An identity provider and access gateway inside Caddy', lang: 'en',
	srcDir: '.src', outDir: 'dist', cleanUrls: false, lastUpdated: false,
	markdown: { html: false, languageAlias: { caddyfile: 'nginx', haproxy: 'nginx' } },
	themeConfig: {
		search: { provider: 'local', options: { detailedView: true } },
		outline: [2, 3],
		nav: [{ text: 'Guide', link: '/guide' }, { text: 'Applications', link: '/integrations' }, { text: 'All documents', link: '/documents' }],
		sidebar,
	},
});
