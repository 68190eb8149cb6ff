package weakpassword_test

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/weakpassword"
)

func TestCommon(t *testing.T) {
	t.Parallel()
	for password, want := range map[string]bool{
		"12345678": true, "password": true, "PassWord1": true, "qwertyuiop": true, "zaq12wsx": true, "iloveyou": true,
		"correct horse battery staple": false, "Tr0ub4dor-and-3": false, "": false, "\n": false, "12345678\nabc123": false,
		"P@ssw0rd1": true, "Welcome01!": true, "Summer2026!": true, "Password2026": true, "passw0rd!!": true, " password ": true,
		"ｐａｓｓｗｏｒｄ": true, "aaaaaaaaaaaa": true, "        ": true, "1111111111111": true, "abcabcabcabc": true, "nmlkjihgfe": true,
		"hunter2hunter2": true, "pässword": true, "summer of 1969 in Utrecht": false, "ab": true, "a": false, "acegikmo": false,
	} {
		if got := weakpassword.Common(password); got != want {
			t.Errorf("Common(%q) = %v, want %v", password, got, want)
		}
	}
}

func TestRepeats(t *testing.T) {
	t.Parallel()
	names := []string{"maria@example.com", "m.jansen", "Acme Portal", "auth.acme-corp.example", "li"}
	for password, want := range map[string]bool{
		"maria@example.com": true, "MARIA@example.COM": true, "maria@example.commaria@example.com": true,
		"maria2024!": true, "mariamaria": true, "Jansen-1999": true, "m.jansen": true, "mjansen12": true,
		"AcmePortal1": true, "acme portal": true, "acme-portal": true, "!!portal!!": true, "auth.acme-corp.example": true, "acmecorp!": false,
		"example123": true, "maria likes sailing": false, "com12345": false, "li123456": false, "portal-of-the-sea": false, "marianne": false,
	} {
		if got := weakpassword.Repeats(password, names...); got != want {
			t.Errorf("Repeats(%q) = %v, want %v", password, got, want)
		}
	}
	if weakpassword.Repeats("anything", "", " ") {
		t.Error("Repeats of no name = true, want false")
	}
}
