package logo_test

import (
	"bytes"
	"image"
	"image/png"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/logo"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/transfer"
)

func open(t *testing.T) *badgerstore.Store {
	t.Helper()
	s, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestLogosInABackup: a store that is restored from a backup has the pictures of applications and providers.
func TestLogosInABackup(t *testing.T) {
	t.Parallel()
	from, to := open(t), open(t)
	pictures := map[web.LogoKind][]byte{}
	for side, kind := range map[int]web.LogoKind{9: web.ClientLogo, 10: web.ProviderLogo} {
		var raw bytes.Buffer
		if err := png.Encode(&raw, image.NewGray(image.Rect(0, 0, side, side))); err != nil {
			t.Fatal(err)
		}
		l, err := web.NewLogo(kind, "corp", raw.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		pictures[kind] = raw.Bytes()
		if err := from.Update(t.Context(), func(tx storage.Tx) error { return logo.Put(tx, kind, "corp", l, raw.Bytes()) }); err != nil {
			t.Fatal(err)
		}
	}
	var file bytes.Buffer
	if err := from.Backup(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	restore := transfer.Copy{From: transfer.FromBackup(bytes.NewReader(file.Bytes())), Name: "backup", To: to}
	if _, err := restore.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	shown := logo.Shown{Store: to}
	for kind, raw := range pictures {
		var l *web.Logo
		err := to.View(t.Context(), func(tx storage.Tx) (err error) {
			l, err = logo.Find(tx, kind, "corp")
			return err
		})
		if err != nil || l == nil {
			t.Fatalf("Find(%s) = %v, %v after a restore", kind, l, err)
		}
		f, found, err := shown.LogoFile(t.Context(), web.LogoKey(kind, "corp"))
		if err != nil || !found || f.Name != l.Name || f.Type != "image/png" || !bytes.Equal(f.Content, raw) {
			t.Errorf("LogoFile(%s) = %s %s of %d bytes, %t, %v, want %s of %d bytes", kind, f.Name, f.Type, len(f.Content), found, err, l.Name, len(raw))
		}
	}
}
