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

export default defineConfig({
	title: 'Gatehouse', description: 'An identity provider and access gateway inside Caddy', lang: 'en',
	srcDir: '.src', outDir: 'dist', cleanUrls: false, lastUpdated: false,
	markdown: { html: false, languageAlias: { caddyfile: 'nginx', haproxy: 'nginx' } },
	themeConfig: {
		search: { provider: 'local', options: { detailedView: true } },
		outline: [2, 3],
		nav: [{ text: 'Guide', link: '/guide' }, { text: 'Applications', link: '/integrations' }, { text: 'All documents', link: '/documents' }],
		sidebar: [
			{ text: 'Start', items: pages('start') },
			group('Guides', ['guide', 'persons', 'openid-providers', 'saml', 'saml-service-providers', 'ldap', 'kerberos', 'qr-sign-in', 'mcp', 'limits',
				'assertion', 'workloads', 'certificates', 'shared-signals', 'words', 'modules']),
			group('Integrations', ['integrations', 'gateways', 'envoy', 'moving-in'], [['Applications', 'integrations'], ['Moving from', 'moving']]),
			group('Operate', ['operation', 'console', 'postgres', 'cluster', 'observability', 'troubleshooting', 'versions']),
			group('Reference', ['caddyfile', 'commands', 'configuration', 'events', 'api', 'api-details', 'credentials'],
				[['Caddyfile by block', 'caddyfile'], ['Commands', 'commands'], ['Settings', 'configuration'], ['Events', 'events'], ['APIs', 'api']]),
			group('Why it works so', ['hardening', 'performance', 'decisions', 'attacks'], [['Decisions', 'decisions'], ['Attacks', 'attacks'], ['Records', 'adr']]),
			{ text: 'What was measured and tried', collapsed: true, items: reports() },
		],
	},
});
