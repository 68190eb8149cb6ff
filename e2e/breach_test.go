package e2e

import (
	"crypto/sha1" //nolint:gosec // what the range service speaks
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestBreachedPassword: while the policy is on, a person is warned about a password that is known from a breach. The
// sources are a range service, which receives five digits of the hash, and a list in a file.
func TestBreachedPassword(t *testing.T) {
	t.Parallel()
	const known, listed = "correct horse battery", "tr0ub4dor and three"
	digits := func(password string) string { return fmt.Sprintf("%X", sha1.Sum([]byte(password))) } //nolint:gosec // as above
	var mu sync.Mutex
	var asked []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.String())
		if h := digits(known); strings.HasSuffix(r.URL.Path, "/"+h[:5]) {
			fmt.Fprintf(w, "%s:7\r\n", h[5:])
		}
	}))
	t.Cleanup(service.Close)
	list := filepath.Join(t.TempDir(), "passwords.txt")
	if err := os.WriteFile(list, []byte(listed+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, s := openShopEdited(t, func(c string) string {
		c = strings.Replace(c, "apis introspection", "apis introspection configuration", 1)
		return strings.Replace(c, "\n\t\tidentity {",
			fmt.Sprintf("\n\t\tidentity {\n\t\t\tbreach {\n\t\t\t\turl %s/range/\n\t\t\t\tfile %s\n\t\t\t}", service.URL, list), 1)
	})
	policy := func(blocked bool) {
		t.Helper()
		if status, answer := s.configure(http.MethodPost, "/api/v2/config/password-policy", fmt.Sprintf(
			`{"min_length":8,"max_length":256,"lower_case_char_required":false,"upper_case_char_required":false,"special_char_required":false,"breached_password_blocked":%t}`, blocked)); status != http.StatusNoContent {
			t.Fatalf("policy: %d %s", status, answer)
		}
	}
	policy(true)

	b := s.browse(t)
	see := look(b, "breached-")
	b.open(s.Issuer + "/account/security/password")
	b.signIn(person, s.Password)
	change := func(current, fresh string) {
		t.Helper()
		b.open(s.Issuer + "/account/security/password")
		b.fill("#current", current)
		b.fill("#password", fresh)
		b.click("main form button:not([type])")
	}
	for name, password := range map[string]string{"service": known, "list": listed} {
		change(s.Password, password)
		if got := b.text("main"); !strings.Contains(got, "appeared in a data breach, so it’s not safe to use") {
			t.Errorf("a password in the %s: %q", name, got)
		}
		see(name)
	}
	mu.Lock()
	for _, at := range asked {
		if len(at) != len("/range/12345") || strings.Contains(at, digits(listed)[:5]) {
			t.Errorf("the service was asked for %s, want five digits of the password that is not in the list", at)
		}
	}
	if len(asked) == 0 {
		t.Error("the service got no request")
	}
	mu.Unlock()

	policy(false)
	change(s.Password, known)
	b.reaches(s.Issuer + "/account/security/password?done=") // the policy is off: the password is changed
}
