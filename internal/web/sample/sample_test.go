package sample_test

import (
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/internal/web/sample"
)

// TestEveryPageHasASample: each title of a page is that of a sample, and no sample shows a message that does not exist.
func TestEveryPageHasASample(t *testing.T) {
	t.Parallel()
	p, err := web.New(web.Config{Issuer: "https://auth.example.com", Key: make([]byte, 32), Locales: web.Languages()})
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]bool{}
	for _, w := range p.Wordings(t.Context(), "en") {
		ours[w.Key] = true
	}
	shown, ids := map[string]bool{}, map[string]bool{}
	for _, s := range sample.All() {
		if ids[s.ID] {
			t.Errorf("two samples are called %s", s.ID)
		}
		ids[s.ID] = true
		keys, err := p.KeysOf(s.View, s.Failure)
		if err != nil {
			t.Errorf("%s: %v", s.ID, err)
		}
		for _, key := range keys {
			if shown[key] = true; !ours[key] && strings.Contains(key, ".") && !strings.ContainsAny(key, " /@") && !strings.HasPrefix(key, "scope.") {
				t.Errorf("%s shows the message %s, which does not exist", s.ID, key)
			}
		}
		for _, lang := range web.Languages() {
			if title, err := p.TitleOf(t.Context(), s.View, s.Failure, lang); err != nil || title == "" || strings.Contains(title, ".title") {
				t.Errorf("%s: the title in %s is %q, %v", s.ID, lang, title, err)
			}
		}
	}
	for key := range ours {
		if strings.HasSuffix(key, ".title") && !strings.HasPrefix(key, "console.") && !strings.HasPrefix(key, "mail.") && key != "push.title" &&
			key != "form_post.title" && !shown[key] {
			t.Errorf("no sample shows %s", key)
		}
	}
}
