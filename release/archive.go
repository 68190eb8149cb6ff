package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// archive writes the binary with its documents: a zip file for Windows, a compressed tar file for others.
func (r *release) archive(b binary, docs []file) error {
	base := fmt.Sprintf("gatehouse_%s_%s_%s", r.plain(), b.os(), b.arch())
	if b.os() == "windows" {
		return create(r.path(base+".zip"), func(w io.Writer) error {
			return r.zip(w, base+"/", append([]file{{"caddy.exe", b.path, true}}, docs...))
		})
	}
	return r.tarball(base, append([]file{{"caddy", b.path, true}}, docs...))
}

// deployment writes what installations with several parts start from: the Helm chart, the Compose files, the board of
// Grafana and the alert rules of Prometheus.
func (r *release) deployment() error {
	var files []file
	for _, dir := range []string{"packaging", "docs/grafana", "docs/prometheus"} {
		err := filepath.WalkDir(filepath.Join(r.root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(filepath.Join(r.root, filepath.Dir(dir)), path)
			name = strings.TrimPrefix(filepath.ToSlash(name), "packaging/")
			if dir != "packaging" || strings.HasPrefix(name, "chart/") || strings.HasPrefix(name, "compose") {
				files = append(files, file{name: name, path: path})
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return r.tarball(fmt.Sprintf("gatehouse_%s_deployment", r.plain()), files)
}

// tarball writes files below a directory of its name into a compressed tar file.
func (r *release) tarball(base string, files []file) error {
	return create(r.path(base+".tar.gz"), func(w io.Writer) error {
		z := gzip.NewWriter(w)
		return errors.Join(r.tar(z, base+"/", files), z.Close())
	})
}

// tar writes files below a directory, with the time of the release and no owner.
func (r *release) tar(w io.Writer, dir string, files []file) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		raw, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: dir + f.name, Mode: f.mode(), Size: int64(len(raw)), ModTime: r.time, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(raw); err != nil {
			return err
		}
	}
	return t.Close()
}

// zip is tar for zip files.
func (r *release) zip(w io.Writer, dir string, files []file) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		raw, err := os.ReadFile(f.path)
		if err != nil {
			return err
		}
		h := &zip.FileHeader{Name: dir + f.name, Method: zip.Deflate, Modified: r.time}
		h.SetMode(os.FileMode(f.mode())) //nolint:gosec // one of two constants
		part, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := part.Write(raw); err != nil {
			return err
		}
	}
	return z.Close()
}

func (f file) mode() int64 {
	if f.program {
		return 0o755
	}
	return 0o644
}

// create writes a new file.
func create(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // for everyone to download
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
