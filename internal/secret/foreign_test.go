package secret_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Hashes made by other systems: from the documentation of OpenLDAP and passlib, and from Python's hashlib.
var foreignHashes = map[string]struct{ hash, password string }{
	"OpenLDAP's SSHA":  {"{SSHA}DkMTwBl+a/3DQTxCYEApdUtNXGgdUac3", "secret"},
	"SSHA":             {"{SSHA}CsaB3rS0+/WKJxYq0vZ36uYesYJzYWx0c2FsdA==", "correct horse 1"},
	"SSHA, no padding": {"{ssha}CsaB3rS0+/WKJxYq0vZ36uYesYJzYWx0c2FsdA", "correct horse 1"},
	"SSHA256":          {"{SSHA256}bYOTnCbkfOmqkc/5PnkYvi8R+SQyEi4rZyOvpqcIAPhzYWx0c2FsdA==", "correct horse 1"},
	"SSHA384":          {"{SSHA384}VrUyHe+zyElsNo059CWd4b5VCDddQIwwLqlPzjchwXI7KCr4SA5oR07VjKhpPe34c2FsdHNhbHQ=", "correct horse 1"},
	"SSHA512": {
		"{SSHA512}zcuk2jw96wCFt4HEotvlLOFwFBhd/5PRXYzU2mRoSYCbCde7DR2zXiU0WqPJEEkv0UstfZaVgh7WxD3vxUPG2nNhbHRzYWx0",
		"correct horse 1",
	},
	"SHA without salt":         {"{SHA}x5fPvYFgDcbGATGvaDXPPkWxnc8=", "correct horse 1"},
	"Django's PBKDF2":          {"pbkdf2_sha256$1000$saltsalt$x74/eLoFuG1b9SwCoUbGr8vyg2cKlbteE/sweaLyNOQ=", "correct horse 1"},
	"passlib's PBKDF2, SHA-1":  {"$pbkdf2$1000$c2FsdHNhbHQ$gjweEZ5XMkWISuokBy85ITxn6Mk", "correct horse 1"},
	"passlib's PBKDF2":         {"$pbkdf2-sha256$6400$0ZrzXitFSGltTQnBWOsdeA$xS3upr62e29h9/zIrz.USU3saLoax9c4c5xTWMHer.Y", "password"},
	"PBKDF2 as a PHC string":   {"$pbkdf2-sha512$i=1000,l=64$c2FsdHNhbHQ$goEMuqkOha/ddH+4nC64Zrs/3erkd7X0lrEDIkEbz5KhEdauZTt9OaZutr9wxl3twLL9uuhJPXhfE0KsYu4mcQ", "correct horse 1"},
	"OpenLDAP's PBKDF2":        {"{PBKDF2-SHA512}1000$c2FsdHNhbHQ$goEMuqkOha/ddH.4nC64Zrs/3erkd7X0lrEDIkEbz5KhEdauZTt9OaZutr9wxl3twLL9uuhJPXhfE0KsYu4mcQ", "correct horse 1"},
	"OpenLDAP's PBKDF2, SHA-1": {"{PBKDF2}1000$c2FsdHNhbHQ$gjweEZ5XMkWISuokBy85ITxn6Mk", "correct horse 1"},
	"passlib's scrypt":         {"$scrypt$ln=16,r=8,p=1$aM15713r3Xsvxbi31lqr1Q$nFNh2CVHVjNldFVKDHDlm4CbdRSCdEBsjjJxD+iCs5E", "password"},
	"a small scrypt":           {"$scrypt$ln=4,r=8,p=1$c2FsdHNhbHQ$9rY0Mo4idXD50gYQtCF2WoFlN9k9RzddJZhLw0adb04", "correct horse 1"},
	"crypt(3), SHA-512":        {"$6$rounds=1000$saltsalt$UCJDY12pJ.9Bpb/0NdqEkPdeMobvKACTq5gjyzxDGexh137wpnR3.OG9XWZj3Zi3ugtF0oWnDOUadQaTBWs0g1", "correct horse 1"},
	"crypt(3) in LDAP":         {"{CRYPT}$6$rounds=1000$saltsalt$UCJDY12pJ.9Bpb/0NdqEkPdeMobvKACTq5gjyzxDGexh137wpnR3.OG9XWZj3Zi3ugtF0oWnDOUadQaTBWs0g1", "correct horse 1"},
	"crypt(3), SHA-256":        {"$5$saltsalt$AIApzLOVSHoORaWl8B42o2wmPpjCr3sZLga8YChMaD9", "correct horse 1"},
	"yescrypt of Debian":       {"$y$j9T$saltsaltsaltsalt$5vMBZoTvC6p0f/dIIU0AV/8k9lKQW254F/M3Z9F3ZHA", "correct horse 1"},
	"htpasswd -m":              {"$apr1$saltsalt$bBFZJOdqmeHkX5sAJRgXJ0", "correct horse 1"},
	"passlib's bcrypt-sha256":  {"$bcrypt-sha256$v=2,t=2b,r=12$n79VH.0Q2TMWmt3Oqt9uku$Kq4Noyk3094Y2QlB8NdRT8SvGiI4ft2", "password"},
	"Argon2i, 2 lanes":         {"$argon2i$v=19$m=64,t=3,p=2$c2FsdHNhbHQ$NfkPGXGb8/gKSz/E4BM2kHesn9pFP2A5yOcP6KmbzSk", "correct horse 1"},
	"Argon2i":                  {"$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$wWKIMhR9lyDFvRz9YTZweHKfbftvj+qf+YFY4NeBbtA", "password"},
	"Argon2d":                  {"$argon2d$v=19$m=64,t=2,p=1$c2FsdHNhbHQ$RCLCScApMRYISGixgLX7QHPOQj7bmX42IyaRq0Ushgs", "correct horse 1"},
	"bcrypt of an LDAP server": {"{CRYPT}$2b$04$WhvkU2PfVcjTmV.9ewAZUulOpXLKRzn4qrPbRzZ5.VeV8yj5lz2Cq", ""},
}

func TestForeignHashes(t *testing.T) {
	t.Parallel()
	h := secret.NewHasher(secret.HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 100})
	for name, c := range foreignHashes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := secret.CheckImported(c.hash); err != nil {
				t.Fatalf("CheckImported = %v, want nil", err)
			}
			if c.password == "" {
				return // bcrypt has tests of its own
			}
			if err := secret.CheckPHC(c.hash); err == nil {
				t.Error("CheckPHC accepts a hash that is fast or of another system")
			}
			if ok, stale, err := h.Verify(t.Context(), c.hash, c.password); !ok || !stale || err != nil {
				t.Errorf("Verify = %t, %t, %v, want a match that is stale", ok, stale, err)
			}
			for _, wrong := range []string{c.password + " ", strings.ToUpper(c.password), "", c.password[:len(c.password)-1]} {
				if ok, stale, err := h.Verify(t.Context(), c.hash, wrong); ok || stale || err != nil {
					t.Errorf("Verify(%q) = %t, %t, %v, want no match", wrong, ok, stale, err)
				}
			}
		})
	}
}

// TestForeignHashCost: response time does not reveal that an account has a fast hash, because a wrong password also
// costs an Argon2id hash.
func TestForeignHashCost(t *testing.T) {
	t.Parallel()
	h := secret.NewHasher(secret.HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 4})
	before := h.Computed()
	if ok, _, err := h.Verify(t.Context(), foreignHashes["SSHA"].hash, "wrong"); ok || err != nil {
		t.Fatal(ok, err)
	}
	if n := h.Computed() - before; n != 2 {
		t.Errorf("a wrong password for a fast hash computed %d hashes, want that one and an Argon2id hash", n)
	}
}

func TestForeignHashesThatAreRefused(t *testing.T) {
	t.Parallel()
	const salt, sum = "c2FsdHNhbHQ", "9rY0Mo4idXD50gYQtCF2WoFlN9k9RzddJZhLw0adb04"
	for name, hash := range map[string]string{
		"MD5":                     "{MD5}Xr4ilOzQ4PCOq3aQ0qbuaQ==",
		"salted MD5":              "{SMD5}Xr4ilOzQ4PCOq3aQ0qbuaXNhbHQ=",
		"crypt":                   "{CRYPT}ab12345678901",
		"no scheme":               "correct horse 1",
		"unknown scheme":          "{X-EVIL}AAAA",
		"SSHA without its salt":   "{SSHA}x5fPvYFgDcbGATGvaDXPPkWxnc8=",
		"SHA with a salt":         "{SHA}CsaB3rS0+/WKJxYq0vZ36uYesYJzYWx0c2FsdA==",
		"SSHA of a long salt":     "{SSHA}" + strings.Repeat("A", 400),
		"SSHA that is not Base64": "{SSHA}***",
		"SSHA of nothing":         "{SSHA}",
		"scrypt of 1 GiB":         "$scrypt$ln=20,r=8,p=1$" + salt + "$" + sum,
		"scrypt of much work":     "$scrypt$ln=15,r=8,p=16$" + salt + "$" + sum,
		"scrypt, r=2^30":          "$scrypt$ln=1,r=1073741824,p=1$" + salt + "$" + sum,
		"scrypt, negative":        "$scrypt$ln=-1,r=8,p=1$" + salt + "$" + sum,
		"scrypt, more parameters": "$scrypt$ln=4,r=8,p=1,x=1$" + salt + "$" + sum,
		"scrypt, short":           "$scrypt$ln=4,r=8,p=1$" + salt + "$AAAA",
		"PBKDF2 for years":        "$pbkdf2-sha256$2000000000$" + salt + "$" + sum,
		"PBKDF2, none":            "$pbkdf2-sha256$0$" + salt + "$" + sum,
		"PBKDF2, no salt":         "$pbkdf2-sha256$1000$$" + sum,
		"PBKDF2, MD5":             "$pbkdf2-md5$1000$" + salt + "$" + sum,
		"PBKDF2, one byte":        "$pbkdf2-sha256$1000$" + salt + "$AA",
		"Argon2i of 1 GiB":        "$argon2i$v=19$m=1048576,t=2,p=1$" + salt + "$" + sum,
		"Argon2 of another kind":  "$argon2x$v=19$m=16,t=2,p=1$" + salt + "$" + sum,
		"MD5 of crypt(3)":         "$1$saltsalt$bBFZJOdqmeHkX5sAJRgXJ0",
		"htpasswd, short":         "$apr1$saltsalt$bBFZJOdqmeHkX5sAJRgXJ",
		"htpasswd, long salt":     "$apr1$saltsaltsalt$bBFZJOdqmeHkX5sAJRgXJ0",
		"SHA-crypt for a minute":  "$5$rounds=999999$saltsalt$AIApzLOVSHoORaWl8B42o2wmPpjCr3sZLga8YChMaD9",
		"SHA-crypt, one round":    "$5$rounds=1$saltsalt$AIApzLOVSHoORaWl8B42o2wmPpjCr3sZLga8YChMaD9",
		"SHA-512 of 256 bits":     "$6$saltsalt$AIApzLOVSHoORaWl8B42o2wmPpjCr3sZLga8YChMaD9",
		"yescrypt of 1 GiB":       "$y$jFT$saltsaltsaltsalt$5vMBZoTvC6p0f/dIIU0AV/8k9lKQW254F/M3Z9F3ZHA",
		"yescrypt without salt":   "$y$j9T$$5vMBZoTvC6p0f/dIIU0AV/8k9lKQW254F/M3Z9F3ZHA",
		"bcrypt-sha256, cost 20":  "$bcrypt-sha256$v=2,t=2b,r=20$n79VH.0Q2TMWmt3Oqt9uku$Kq4Noyk3094Y2QlB8NdRT8SvGiI4ft2",
		"a long one":              "{SSHA512}" + strings.Repeat("A", 10_000),
	} {
		if err := secret.CheckImported(hash); !errors.Is(err, secret.ErrHashFormat) {
			t.Errorf("%s: CheckImported = %v, want %v", name, err, secret.ErrHashFormat)
		}
	}
}

// FuzzForeignHash: every accepted hash can be verified within the bounds.
func FuzzForeignHash(f *testing.F) {
	for _, c := range foreignHashes {
		f.Add(c.hash)
	}
	f.Fuzz(func(t *testing.T, hash string) {
		if err := secret.CheckImported(hash); err != nil && !errors.Is(err, secret.ErrHashFormat) {
			t.Errorf("CheckImported(%q) = %v", hash, err)
		}
	})
}
