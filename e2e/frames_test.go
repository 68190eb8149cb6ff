package e2e

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	cdppage "github.com/chromedp/cdproto/page"
)

// TestFrames: another site embeds our pages in every possible way, over a button of its own.
func TestFrames(t *testing.T) {
	t.Parallel()
	p, s := openShop(t)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path == "/plain" {
			fmt.Fprint(w, "<!doctype html><title>Plain</title><p>May be framed")
			return
		}
		element, target := r.URL.Query().Get("element"), html.EscapeString(r.URL.Query().Get("target"))
		attribute := map[string]string{"iframe": "src", "embed": "src", "object": "data", "frame": "src"}[element]
		if element == "frame" {
			fmt.Fprintf(w, "<!doctype html><title>Evil</title><frameset><frame src=\"%s\"></frameset>", target)
			return
		}
		fmt.Fprintf(w, "<!doctype html><title>Evil</title><%s %s=\"%s\" type=\"text/html\" sandbox=\"allow-forms allow-scripts allow-same-origin\"></%s><button>Win</button>", element, attribute, target, element)
	}))
	t.Cleanup(evil.Close)
	b := s.browse(t)
	b.open(p.address + "/")
	flow := b.location()
	framed := func(element, target string) bool {
		t.Helper()
		b.open(evil.URL + "/evil?element=" + element + "&target=" + strings.ReplaceAll(target, "&", "%26"))
		tree := call(b, cdppage.GetFrameTree, cdp.Empty{}).FrameTree
		for _, child := range tree.ChildFrames {
			if child.Frame.UnreachableURL == "" && !strings.HasPrefix(child.Frame.URL, "chrome-error:") && child.Frame.URL != "about:blank" {
				return true
			}
		}
		return false
	}
	look := func(pages ...string) {
		t.Helper()
		for _, element := range []string{"iframe", "embed", "object", "frame"} {
			if element != "frame" && !framed(element, evil.URL+"/plain") {
				t.Errorf("%s: a page that allows framing is not framed, so this test proves nothing", element)
			}
			for _, target := range pages {
				if framed(element, target) {
					t.Errorf("attack 273: %s is shown in %s of another site", target, element)
				}
			}
		}
	}
	look(flow, s.Issuer+"/sign-in", s.Issuer+"/account", s.Issuer+"/oauth/authorize?client_id=nobody", s.Issuer+"/nowhere")
	b.open(p.address + "/")
	b.signIn(person, s.Password)
	look(b.location(), s.Issuer+"/account", s.Issuer+"/account/security", s.Issuer+"/sign-out", s.Issuer+"/oauth/logout")
}
