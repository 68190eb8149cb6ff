package secret_test

import (
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestTooCostly(t *testing.T) {
	t.Parallel()
	const argon, rest = "$argon2id$v=19$", "$ZFExOE5iNnVpTk1GOUM3Tw$Yy/dJEKby/uHrSqoHmhJrBCjKlwxlzZr7Gav2Vce+iI"
	for name, tt := range map[string]struct{ hash, want string }{
		"1 GiB":         {argon + "m=1048576,t=1,p=8" + rest, "takes 1024 MiB of memory for each try, of which 256 are allowed"},
		"no number":     {argon + "m=99999999999999999999,t=1,p=8" + rest, "MiB of memory"},
		"within braces": {"{ARGON2}" + argon + "m=1048576,t=1,p=8" + rest, "takes 1024 MiB"},
		"many passes":   {argon + "m=65536,t=64,p=1" + rest, "takes 64 passes over 64 MiB for each try, of which 32 are allowed"},
		"bcrypt":        {"$2b$15$GhvMmNVjRW29ulnudl.LbuAnUtN/LRfe1JsBm1Xu6LE3059z5Tr8m", "has the cost 15, and at most 14 is allowed"},
		"PBKDF2": {
			"$pbkdf2-sha512$3000000$c2FsdHNhbHQ$Yy/dJEKby/uHrSqoHmhJrBCjKlwxlzZr7Gav2Vce+iI",
			"has iterations: 3000000, and at most 2000000 is allowed",
		},
		"Django":           {"pbkdf2_sha256$3000000$salt$x74/eLoFuG1b9SwCoUbGr8vyg2cKlbteE/sweaLyNOQ=", "has iterations: 3000000"},
		"SHA-crypt":        {"$6$rounds=5000000$salt$x", "has rounds: 5000000"},
		"scrypt":           {"$scrypt$ln=20,r=8,p=1$c2FsdHNhbHQ$Yy/dJEKby/uHrSqoHmhJrBCjKlwxlzZr7Gav2Vce+iI", "takes 1024 MiB of memory 1 times"},
		"within bounds":    {argon + "m=65536,t=3,p=4" + rest, ""},
		"not understood":   {"$1$salt$qJH7.N4xYta3aEG/dfqo/0", ""},
		"a plain password": {"correct horse", ""},
	} {
		got := secret.TooCostly(tt.hash)
		if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: TooCostly = %q, want %q", name, got, tt.want)
		}
		if got != "" && secret.CheckImported(tt.hash) == nil {
			t.Errorf("%s: a hash that costs too much is accepted", name)
		}
	}
}
