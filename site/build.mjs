// Builds the documentation site into dist: the documents of ../docs with a start page in front. Links to files of the
// tree outside of docs lead to the repository; any other link without a page fails the build.
import fs from 'node:fs';
import path from 'node:path';
import { build } from 'vitepress';

const repository = 'https://github.com/gatehouse-id/gatehouse/blob/main/';
const docs = path.resolve('../docs');

function outside(file, link) {
	const [target, anchor] = link.split('#');
	const full = path.resolve(path.dirname(file), target);
	if (full.startsWith(docs + path.sep) && fs.existsSync(full) && /\.(md|png)$/.test(full)) {
		return path.basename(full) === 'README.md' ? link.replace('README.md', 'documents.md') : link;
	}
	const within = path.relative(path.resolve('..'), full);
	if (within.startsWith('..') || !fs.existsSync(full)) throw new Error(`${file} links to ${link}, which does not exist`);
	return repository + within + (anchor ? '#' + anchor : '');
}

fs.rmSync('.src', { recursive: true, force: true });
fs.cpSync(docs, '.src', { recursive: true });
fs.renameSync('.src/README.md', '.src/documents.md');
for (const name of fs.readdirSync(docs, { recursive: true }).filter((f) => f.endsWith('.md'))) {
	let fenced = false;
	const text = fs.readFileSync(path.join(docs, name), 'utf8').split('\n').map((line) => {
		if (line.startsWith('```')) fenced = !fenced;
		if (fenced) return line;
		return line.replace(/\]\(([^)\s]+)\)/g, (all, link) =>
			/^(https?:|mailto:|#)/.test(link) ? all : `](${outside(path.join(docs, name), link)})`);
	}).join('\n');
	fs.writeFileSync(path.join('.src', name === 'README.md' ? 'documents.md' : name), text);
}
fs.writeFileSync('.src/index.md', fs.readFileSync('index.md', 'utf8').replaceAll('](../docs/', '](./'));
await build('.');
