package archtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEventsHaveWords: what happens is told in the language of the reader, not by the English name that programs read:
// everything in the console, what happens to a person on their page of activity.
func TestEventsHaveWords(t *testing.T) {
	t.Parallel()
	messages := pageMessages(t)
	wordless := []string{
		// left out of that page, since they happen all the time
		"token.AccessTokenRefreshedEvent", "token.TokenExchangedEvent", "token.TransactionTokenIssuedEvent",
		"token.ClientAuthenticationFailedEvent", "token.ClientRevokedEvent", // concern no person
	}
	for _, k := range eventKinds(t) {
		if messages["console.kind."+k.typ] == "" {
			t.Errorf("%s: there is no message console.kind.%s", k.dir, k.typ)
		}
		group, _, _ := strings.Cut(k.typ, ".")
		if k.brief || slices.Contains(wordless, k.typ) ||
			!slices.Contains([]string{"person", "login", "session", "consent", "token", "access", "device"}, group) {
			continue
		}
		if messages["activity."+k.typ] == "" {
			t.Errorf("%s: there is no message activity.%s", k.dir, k.typ)
		}
	}
}

// pageMessages returns the English messages of all topics.
func pageMessages(t *testing.T) map[string]string {
	t.Helper()
	topics, err := filepath.Glob("../web/messages/en/*.json")
	if err != nil || len(topics) == 0 {
		t.Fatalf("%d files, %v", len(topics), err)
	}
	messages := map[string]string{}
	for _, topic := range topics {
		raw, err := os.ReadFile(topic)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &messages); err != nil { // it adds to those that are there
			t.Fatal(err)
		}
	}
	return messages
}

// TestMessagesOfPages: what the identity service names as a message of a page is one of
// internal/web/messages/en. (internal/web holds the other languages against that directory.)
func TestMessagesOfPages(t *testing.T) {
	t.Parallel()
	messages := pageMessages(t)
	files, err := filepath.Glob("../../identity/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	member := regexp.MustCompile(`\b(Label|Hint|Problem|Good|Submit|Empty): *"([a-z0-9_]+(?:\.[a-z0-9_]+)+)"`)
	given := regexp.MustCompile(`"((?:problem|error)\.[a-z0-9_]+)"`)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, m := range member.FindAllStringSubmatch(string(src), -1) {
			keys = append(keys, m[2])
		}
		for _, m := range given.FindAllStringSubmatch(string(src), -1) {
			if strings.HasPrefix(m[1], "error.") {
				m[1] += ".title"
			}
			keys = append(keys, m[1])
		}
		for _, key := range keys {
			if messages[key] == "" {
				t.Errorf("%s: there is no message %s", filepath.Base(name), key)
			}
		}
	}
}
