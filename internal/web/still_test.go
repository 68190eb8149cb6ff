package web

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestNothingReachesOut reads the sources of the pages: no input can enable what the sources never do.
func TestNothingReachesOut(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`<a\b(?:[^>"]|"[^"]*")*>`)
	t.Run("attack 287: new windows, openers and messages between windows", func(t *testing.T) {
		t.Parallel()
		entries, err := templateFiles.ReadDir("templates")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			raw, err := templateFiles.ReadFile(path.Join("templates", e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			// A page with a stream loads itself again where there are no scripts. The number is an int.
			text := strings.ReplaceAll(string(raw), `<noscript><meta http-equiv="refresh" content="{{.}}"></noscript>`, "")
			for _, never := range []string{"target=", "<base", "<object", "<embed", "http-equiv", "javascript:", "style=", " on"} {
				for _, tag := range regexp.MustCompile(`<[a-z][^<]*>`).FindAllString(text, -1) {
					if at := strings.Index(tag, never); at >= 0 && (never != " on" || regexp.MustCompile(` on[a-z]+=`).MatchString(tag)) {
						t.Errorf("%s: %q has %q", e.Name(), tag, never)
					}
				}
			}
			for _, a := range link.FindAllString(text, -1) {
				if strings.Contains(a, "http") && !strings.Contains(a, "noopener") {
					t.Errorf("%s: %q leads elsewhere and is not noopener", e.Name(), a)
				}
			}
		}
		err = fs.WalkDir(scriptFiles, "assets", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := scriptFiles.ReadFile(name)
			for _, never := range []string{
				"postMessage", "opener", "window.open", "localStorage", "sessionStorage", "document.cookie", "indexedDB", "innerHTML", "outerHTML",
				"insertAdjacentHTML", "document.write",
				"eval(", "Function(", "importScripts", "http://", "https://", "WebSocket", "sendBeacon",
			} {
				if d.Name() == "fragment.js" && (never == "localStorage" || never == "document.cookie") {
					continue // it keeps what is after # in an address, and says that it does
				}
				if strings.Contains(string(raw), never) {
					t.Errorf("%s has %s", name, never)
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		for _, never := range []string{"@import", "url(", "expression("} {
			if strings.Contains(stylesheet, never) {
				t.Errorf("gatehouse.css has %s", never)
			}
		}
	})
}
