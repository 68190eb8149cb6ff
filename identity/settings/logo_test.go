package settings_test

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"testing"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// TestLogosOfPages: pages read the pictures of login methods once for each state of the settings, on every node, and a
// change of a picture counts from the next request on.
func TestLogosOfPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner, by := settings.WithRights(t.Context(), settings.Owner), audit.Actor{ID: "owner"}
	if _, err := w.service.Import(owner, []byte(`{"login_methods":{"login_methods":[`+anyProvider+`]}}`), by); err != nil {
		t.Fatal(err)
	}
	picture := func(side int) []byte {
		var raw bytes.Buffer
		if err := png.Encode(&raw, image.NewGray(image.Rect(0, 0, side, side))); err != nil {
			t.Fatal(err)
		}
		return raw.Bytes()
	}
	// shown returns the picture on a page of one node, and demands that a second page needs no storage.
	shown := func(node *settings.Service) *web.Logo {
		t.Helper()
		u, err := node.Current(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		page := settings.Seen(t.Context(), u)
		first, err := node.PageLogos(page)
		if err != nil {
			t.Fatal(err)
		}
		w.store.fail(errors.New("no page reads the pictures again"))
		again, err := node.PageLogos(page)
		w.store.broken.Store(nil)
		if err != nil || again["mine"] != first["mine"] {
			t.Errorf("PageLogos without storage = %v, %v, want %v", again, err, first)
		}
		return first["mine"]
	}
	nodes := []*settings.Service{w.service, w.another(settings.Config{Verify: verify}, zap.NewNop())}
	for i, node := range nodes {
		if l := shown(node); l != nil {
			t.Errorf("node %d shows %v before there is a picture", i, l)
		}
	}
	_, tag, err := w.service.UnitStates(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, side := range []int{16, 24} {
		if err := w.service.SetLogo(owner, "mine", picture(side), by); err != nil {
			t.Fatal(err)
		}
		for i, node := range nodes {
			if l := shown(node); l == nil || l.Width != side || l.Name == last {
				t.Errorf("node %d shows %v, want the picture of %d pixels", i, l, side)
			}
		}
		last = shown(w.service).Name
	}
	if _, now, err := w.service.UnitStates(t.Context()); err != nil || now != tag {
		t.Errorf("a picture changes the entity tag of the settings: %s, %v, want %s", now, err, tag)
	}
	if err := w.service.RemoveLogo(owner, "mine", by); err != nil {
		t.Fatal(err)
	}
	for i, node := range nodes {
		if l := shown(node); l != nil {
			t.Errorf("node %d shows %v after it was removed", i, l)
		}
	}
}
