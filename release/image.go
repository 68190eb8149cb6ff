package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user of the image: not root, and of no one on the host.
const user = 65532

// image writes an OCI layout with an image for each Linux target, packed as one tar file. The image is from scratch:
// the binary, which has the time zones in it, and the certificates of public authorities.
func (r *release) image(binaries []binary) error {
	authorities := roots()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range binaries {
		if b.os() != "linux" {
			continue
		}
		img, err := r.imageOf(b, authorities)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: b.arch()}},
		})
	}
	dir, err := os.MkdirTemp("", "gatehouse-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	ref := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.plain()})
	if err := path.AppendIndex(index, ref); err != nil {
		return err
	}
	list, err := filesBelow(dir)
	if err != nil {
		return err
	}
	return create(r.path(fmt.Sprintf("gatehouse_%s_oci.tar", r.plain())), func(w io.Writer) error {
		return r.tar(w, "", list)
	})
}

// filesBelow lists the files below a directory.
func filesBelow(dir string) (list []file, err error) {
	err = filepath.Walk(dir, func(p string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, p)
		list = append(list, file{name: filepath.ToSlash(name), path: p})
		return err
	})
	slices.SortFunc(list, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return list, err
}

// roots returns the certificates of public authorities, as PEM. They come from a module of Go's makers and not from
// this machine, so they are the same everywhere. Those that are trusted for older certificates only are left out,
// since a bundle can't say so.
func roots() []byte {
	var pems bytes.Buffer
	for r := range bundle.Roots() {
		if r.Constraint == nil {
			pems.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}))
		}
	}
	return pems.Bytes()
}

// imageOf makes the image of one binary.
func (r *release) imageOf(b binary, authorities []byte) (v1.Image, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, l := range [][]entry{ // the binary is in a layer of its own: the other one stays the same over upgrades
		{
			{name: "etc/ssl/certs/ca-certificates.crt", content: authorities, mode: 0o644},
			{name: "etc/passwd", content: fmt.Appendf(nil, "caddy:x:%d:%d::/data:/sbin/nologin\n", user, user), mode: 0o644},
			{name: "etc/caddy/", mode: 0o755},
			{name: "tmp/", mode: 0o1777},
			{name: "data/", mode: 0o777, owner: user}, // for a user that the platform chooses, too
		},
		{{name: "usr/bin/caddy", content: program, mode: 0o755}},
	} {
		layer, err := r.layer(l)
		if err != nil {
			return nil, err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", b.arch(), v1.Time{Time: r.time}
	for i := range config.History {
		config.History[i].Created = v1.Time{Time: r.time}
	}
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", user, user), WorkingDir: "/data",
		Env: []string{
			"PATH=/usr/bin", "HOME=/data", "XDG_CONFIG_HOME=/data", "XDG_DATA_HOME=/data", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
		},
		Entrypoint: []string{"/usr/bin/caddy"}, Cmd: []string{"run", "--config", "/etc/caddy/Caddyfile"},
		ExposedPorts: map[string]struct{}{"80/tcp": {}, "443/tcp": {}, "443/udp": {}},
		Volumes:      map[string]struct{}{"/data": {}},
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "/usr/bin/caddy", "gatehouse", "nodes"}, Interval: 30 * time.Second, Timeout: 10 * time.Second,
			StartPeriod: 30 * time.Second, Retries: 3,
		},
		StopSignal: "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title": "Gatehouse", "org.opencontainers.image.version": r.plain(),
			"org.opencontainers.image.description": "Caddy with Gatehouse, which signs people in and guards sites",
			"org.opencontainers.image.source":      "https://github.com/gatehouse-id/gatehouse",
			"org.opencontainers.image.licenses":    "Apache-2.0", "org.opencontainers.image.revision": r.commit,
			"org.opencontainers.image.created": r.time.Format(time.RFC3339),
		},
	}
	return mutate.ConfigFile(img, config)
}

// entry is a file of an image, or a directory if its name ends so.
type entry struct {
	name    string
	content []byte
	mode    int64
	owner   int
}

// layer packs files.
func (r *release) layer(entries []entry) (v1.Layer, error) {
	var raw bytes.Buffer
	t := tar.NewWriter(&raw)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.content)), ModTime: r.time}
		h.Typeflag, h.Format = tar.TypeReg, tar.FormatUSTAR
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}
