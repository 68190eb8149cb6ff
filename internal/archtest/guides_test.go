package archtest

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// wordsOfGuides is the greatest number of words that people who learn Gatehouse have to read.
const wordsOfGuides = 60_000

// madeRun is the part of a guide that a benchmark writes.
var madeRun = regexp.MustCompile(`(?s)<!-- run: begin -->.*<!-- run: end -->`)

// TestWordsOfGuides counts the words that are written by hand for people who learn: the guides, quick starts and pages
// for applications and for moving. What they look things up in is not among them: messages, APIs, reasons.
func TestWordsOfGuides(t *testing.T) {
	t.Parallel()
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	reference := map[string]bool{"docs/troubleshooting.md": true, "docs/api.md": true, "docs/api-details.md": true}
	words := 0
	for _, f := range all {
		switch filepath.ToSlash(filepath.Dir(f)) {
		case "docs", "docs/start", "docs/integrations", "docs/moving":
		default:
			continue
		}
		content := text(t, f)
		if strings.HasSuffix(f, ".md") && !reference[f] && !strings.HasPrefix(content, "<!-- Made from the code") {
			words += len(strings.Fields(madeRun.ReplaceAllString(content, "")))
		}
	}
	if words > wordsOfGuides || words < wordsOfGuides/4 {
		t.Errorf("the guides have %d words, want at most %d", words, wordsOfGuides)
	}
	t.Logf("the guides have %d words", words)
}
