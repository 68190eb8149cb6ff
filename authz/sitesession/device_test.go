package sitesession_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/sitesession"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/dbsc/dbsctest"
)

// bind registers a device for a session at the wiki, and returns it with the second cookie.
func bind(t *testing.T, h *authztest.Harness, token string) (d *dbsctest.Device, second string) {
	t.Helper()
	x, offer := h.Server().SiteDevices(authztest.WikiOrigin, true, nil), http.Header{}
	if err := x.Offer(offer, token); err != nil {
		t.Fatal(err)
	}
	d = dbsctest.New(t)
	w := device(x, token, dbsc.RegisterPath, d.Registration(offer)...)
	if w.Code != http.StatusOK {
		t.Fatalf("registration = %d %s", w.Code, w.Body)
	}
	d.Learn(w.Body.String())
	return d, secondOf(w)
}

func device(x *dbsc.Exchange, token, path string, headers ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	x.Serve(w, dbsc.Request{Request: dbsctest.Request(authztest.WikiOrigin, path, headers...), Token: token})
	return w
}

func secondOf(w *httptest.ResponseRecorder) string {
	for _, c := range w.Result().Cookies() {
		if c.Name == cookie.For(authztest.WikiOrigin).Name(dbsc.Cookie) {
			return c.Value
		}
	}
	return ""
}

// TestBoundSiteSession: the cookie of a session that is bound to a device, copied to another browser, at another site,
// and after the second cookie that was copied with it has ended.
func TestBoundSiteSession(t *testing.T) {
	t.Parallel()
	t.Run("attack 8311: a copied cookie of a session of a site", func(t *testing.T) {
		h := authztest.New(t)
		in := authztest.OpenSite(t, h, h.Browser(authztest.Demo))
		active := func(origin, second string) bool {
			t.Helper()
			got, err := h.Server().SiteSession(t.Context(), origin, in.Token, second)
			if err != nil {
				t.Fatal(err)
			}
			return got.Active
		}
		if got, err := h.Server().SiteSession(t.Context(), authztest.WikiOrigin, in.Token, ""); err != nil || !got.Active || got.DeviceBound {
			t.Fatalf("a new session = %+v, %v", got, err)
		}
		d, second := bind(t, h, in.Token)
		switch {
		case active(authztest.WikiOrigin, ""):
			t.Error("the cookie alone opens the site")
		case active(authztest.WikiOrigin, second[:len(second)-2]+"AA"):
			t.Error("the cookie with a changed second one opens the site")
		case active(files, second):
			t.Error("both cookies open another site")
		case !active(authztest.WikiOrigin, second):
			t.Error("both cookies do not open the site")
		}
		if got, _, err := h.Server().ObserveSite(t.Context(), authztest.WikiOrigin, in.Token); err != nil || !got.Active || !got.DeviceBound {
			t.Errorf("a request that has passed and lasts = %+v, %v", got, err)
		}
		h.Clock.Advance(11 * time.Minute)
		if active(authztest.WikiOrigin, second) {
			t.Error("a second cookie counts for longer than ten minutes")
		}
		x := h.Server().SiteDevices(authztest.WikiOrigin, false, nil) // it is switched off by now: what is bound stays bound
		w := device(x, in.Token, dbsc.RefreshPath, d.Refresh(device(x, in.Token, dbsc.RefreshPath, d.Asks()...).Header())...)
		if fresh := secondOf(w); w.Code != http.StatusOK || !active(authztest.WikiOrigin, fresh) {
			t.Errorf("refresh = %d %s", w.Code, w.Body)
		}
		other := h.Server().SiteDevices(files, true, nil)
		if w := device(other, in.Token, dbsc.RefreshPath, d.Asks()...); dbsctest.Challenge(w.Header()) != "" {
			t.Error("another site asks for a proof of this session")
		}
	})
}

// TestBoundSiteSessionEnds: with the sign-in, the browser forgets what it has registered.
func TestBoundSiteSessionEnds(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	in := authztest.OpenSite(t, h, h.Browser(authztest.Demo))
	d, _ := bind(t, h, in.Token)
	if _, err := h.Server().EndSite(t.Context(), authztest.WikiOrigin, in.Token); err != nil {
		t.Fatal(err)
	}
	w := device(h.Server().SiteDevices(authztest.WikiOrigin, true, nil), in.Token, dbsc.RefreshPath, d.Asks()...)
	if got := d.Learn(w.Body.String()); got.Continue == nil || *got.Continue {
		t.Errorf("refresh of an ended session = %d %s", w.Code, w.Body)
	}
	removed := strings.Join(w.Header().Values("Set-Cookie"), "\n")
	for _, kind := range []string{sitesession.Cookie, dbsc.Cookie} {
		if !strings.Contains(removed, cookie.For(authztest.WikiOrigin).Name(kind)+"=;") {
			t.Errorf("the cookie %s stays: %s", kind, removed)
		}
	}
}
