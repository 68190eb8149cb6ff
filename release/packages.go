package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk" // registers its format, as the next two do
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

const description = `Web server that signs people in and guards sites
Caddy with Gatehouse: an OpenID Connect and SAML provider, accounts, and a gateway.`

// pack writes a package for Debian (deb), Red Hat (rpm) or Alpine (apk). An upgrade keeps a changed Caddyfile, and no
// package owns the data.
func (r *release) pack(b binary, docs []file, format string) error {
	dir, err := os.MkdirTemp("", "gatehouse-scripts-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	scripts, err := r.scripts(dir)
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "gatehouse", Arch: b.arch(), Platform: "linux", Version: r.plain(), Release: "1", MTime: r.time,
		Section: "web", Priority: "optional", License: "Apache-2.0", Vendor: "Gatehouse",
		Maintainer:  "Gatehouse <gatehouse-id@users.noreply.github.com>",
		Homepage:    "https://github.com/gatehouse-id/gatehouse",
		Description: description,
		Overridables: nfpm.Overridables{
			Provides: []string{"caddy"}, Conflicts: []string{"caddy"}, Contents: r.contents(b, docs, format),
			Scripts: nfpm.Scripts{PreInstall: scripts["preinstall.sh"], PostInstall: scripts["postinstall.sh"], PreRemove: scripts["preremove.sh"]},
		},
	})
	info.RPM.BuildHost = "localhost" // the name of this machine would be in the package
	info.APK.Scripts.PostUpgrade = scripts["postinstall.sh"]
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	p, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("gatehouse_%s_linux_%s.%s", r.plain(), b.arch(), format)
	return create(r.path(name), func(w io.Writer) error { return p.Package(info, w) })
}

// scripts copies the scripts of packages into a directory and returns their paths by name. An apk has the time of such
// a file, which in a working tree is that of the checkout.
func (r *release) scripts(dir string) (map[string]string, error) {
	paths := map[string]string{}
	for _, name := range []string{"preinstall.sh", "postinstall.sh", "preremove.sh"} {
		raw, err := os.ReadFile(r.packaging(name))
		if err != nil {
			return nil, err
		}
		paths[name] = filepath.Join(dir, name)
		if err := os.WriteFile(paths[name], raw, 0o600); err != nil {
			return nil, err
		}
		if err := os.Chtimes(paths[name], r.time, r.time); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// contents lists the files of a package.
func (r *release) contents(b binary, docs []file, format string) files.Contents {
	entry := func(source, target, kind, group string, mode fs.FileMode) *files.Content {
		return &files.Content{
			Source: source, Destination: target, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: group, Mode: mode, MTime: r.time},
		}
	}
	list := files.Contents{
		entry(b.path, "/usr/bin/caddy", files.TypeFile, "root", 0o755),
		entry("", "/etc/caddy", files.TypeDir, "caddy", 0o750),
		entry(r.packaging("Caddyfile"), "/etc/caddy/Caddyfile", files.TypeConfigNoReplace, "caddy", 0o640),
	}
	if format != "apk" { // Alpine has no systemd
		list = append(list, entry(r.packaging("caddy.service"), "/usr/lib/systemd/system/caddy.service", files.TypeFile, "root", 0o644))
	}
	for _, d := range docs {
		target := "/usr/share/doc/gatehouse/" + d.name
		if page, ok := strings.CutPrefix(d.name, "man/"); ok {
			target = "/usr/share/man/man8/" + page
		} else if shell, ok := strings.CutPrefix(d.name, "completions/caddy."); ok {
			target = "/" + shells[shell]
		}
		if target != "/" {
			list = append(list, entry(d.path, target, files.TypeFile, "root", 0o644))
		}
	}
	return list
}

func (r *release) packaging(name string) string { return filepath.Join(r.root, "packaging", name) }
