package web

import "testing"

// TestTemplates: every page can be parsed. A server parses one when it first shows it, so a broken one would not stop
// its start.
func TestTemplates(t *testing.T) {
	t.Parallel()
	set, err := templates()
	if err != nil {
		t.Fatal(err)
	}
	if len(set) < 20 {
		t.Errorf("%d pages, want more", len(set))
	}
	for name := range set {
		page, err := set.page(name)
		if err != nil {
			t.Error(err)
		} else if page.Lookup("frame") == nil || page.Lookup("title") == nil {
			t.Errorf("page %s has no frame or no title", name)
		}
	}
	if _, err := set.page("_frame"); err == nil {
		t.Error("a part is a page")
	}
}
