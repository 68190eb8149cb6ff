package importer_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/importer"
)

// TestDex reads the static passwords of Dex.
func TestDex(t *testing.T) {
	t.Parallel()
	const hash = "$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W" // of Dex's documentation: password
	r, err := importer.New(strings.NewReader(`issuer: https://dex.example.com
staticPasswords:
- email: admin@example.com
  hash: "`+hash+`"
  username: admin
  userID: "08a8684b-db88-4b73-90a9-3cd1661f5466"
  preferredUsername: root
  groups: [staff]
- email: eve@example.com
  hashFromEnv: EVE_HASH
  emailVerified: false
- email: bad@example.com
  hash: JDJhJDEwJA==
- email: [list]
`), importer.Dex)
	if err != nil {
		t.Fatal(err)
	}
	admin, line, err := r.Next()
	if err != nil || line != 3 || admin.Username != "admin@example.com" || admin.PasswordHash != hash ||
		admin.Name != "admin" || !*admin.EmailVerified ||
		admin.ExternalID != "08a8684b-db88-4b73-90a9-3cd1661f5466" || admin.ID != "" || len(admin.Groups) != 1 ||
		!strings.Contains(strings.Join(admin.Notes, "\n"), "sub") || !strings.Contains(strings.Join(admin.Notes, "\n"), `"root" does not come`) {
		t.Errorf("admin is %+v on line %d, %v", admin, line, err)
	}
	if eve, _, err := r.Next(); err != nil || eve.PasswordHash != "" || *eve.EmailVerified || len(eve.Notes) != 1 {
		t.Errorf("eve is %+v, %v", eve, err)
	}
	for _, want := range []int{12, 14} {
		wrong := new(importer.LineError)
		if _, _, err := r.Next(); !errors.As(err, &wrong) || wrong.Line != want {
			t.Errorf("error %v, want one of line %d", err, want)
		}
	}
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	for _, bad := range []string{"", "- a", "issuer: x\nstaticPasswords: {a: b}\n", ":\n:"} {
		if _, err := importer.New(strings.NewReader(bad), importer.Dex); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
