package secret

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha1" //nolint:gosec // hashes that others have made
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/crypto/scrypt"

	"github.com/gatehouse-id/gatehouse/internal/secret/argon2id"
)

// Hashes made by other systems, in their spellings. They are verified, never made: a person who signs in with one gets
// a new Argon2id hash.
const (
	maxPBKDF2     = 2_000_000 // iterations
	maxScryptKiB  = 64 << 10  // 128 * r * N bytes
	maxScryptWork = 1 << 21   // N * r * p
	maxForeign    = 512       // bytes of a hash as text
)

// foreignHash verifies one password.
type foreignHash func(password []byte) (got, want []byte, err error)

var (
	schemePrefix = regexp.MustCompile(`^\{([A-Za-z0-9_.-]{1,24})\}`)
	sshaSchemes  = map[string]func() hash.Hash{
		"SSHA": sha1.New, "SHA": sha1.New, "SSHA256": sha256.New, "SHA256": sha256.New, "SSHA512": sha512.New, "SHA512": sha512.New,
		"SSHA384": sha512.New384, "SHA384": sha512.New384,
	}
	pbkdf2Digests = map[string]func() hash.Hash{
		"sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New, "": sha1.New,
	}
)

// parseForeign reads a hash of another system: {SSHA…} (RFC 2307), PBKDF2 and scrypt as passlib, Django, LDAP servers
// and PHC strings write them, and those of parseCrypt. The result is compared in constant time.
func parseForeign(phc string) (foreignHash, error) {
	if len(phc) > maxForeign {
		return nil, ErrHashFormat
	}
	if m := schemePrefix.FindStringSubmatch(phc); m != nil {
		scheme, rest := strings.ToUpper(m[1]), phc[len(m[0]):]
		if digest := sshaSchemes[scheme]; digest != nil {
			return parseSSHA(digest, rest, strings.HasPrefix(scheme, "SSHA"))
		}
		if suffix, ok := strings.CutPrefix(scheme, "PBKDF2"); ok {
			return parsePBKDF2(strings.ToLower(strings.Trim(suffix, "-_")), strings.Split(rest, "$"))
		}
		return nil, ErrHashFormat
	}
	switch parts := strings.Split(phc, "$"); {
	case len(parts) == 4 && strings.HasPrefix(parts[0], "pbkdf2_"): // Django
		return parsePBKDF2(strings.TrimPrefix(parts[0], "pbkdf2_"), parts[1:], rawSalt)
	case len(parts) < 3 || parts[0] != "":
		return nil, ErrHashFormat
	case parts[1] == "scrypt":
		return parseScrypt(parts[2:])
	case parts[1] == "pbkdf2", strings.HasPrefix(parts[1], "pbkdf2-"):
		return parsePBKDF2(strings.TrimPrefix(strings.TrimPrefix(parts[1], "pbkdf2"), "-"), parts[2:])
	}
	return parseCrypt(phc)
}

// ForeignKind returns what foreign hashes of equal cost have in common: the text before salt and digest. It is empty
// for Argon2id and bcrypt, whatever they cost, and for hashes that cost next to nothing.
func ForeignKind(phc string) string {
	phc = unwrap(phc)
	if isBcrypt(phc) {
		return phc[:min(len("$2b$12"), len(phc))]
	}
	if _, err := parseForeign(phc); err != nil {
		return ""
	}
	if i := strings.LastIndexByte(phc, '$'); i > 0 {
		if i = strings.LastIndexByte(phc[:i], '$'); i > 0 {
			return phc[:i]
		}
	}
	return ""
}

// parseSSHA reads the digest of password and salt, followed by the salt.
func parseSSHA(digest func() hash.Hash, text string, salted bool) (foreignHash, error) {
	raw, err := anyBase64(text)
	n := digest().Size()
	if err != nil || len(raw) < n || salted != (len(raw) > n) || len(raw) > n+64 {
		return nil, ErrHashFormat
	}
	return func(password []byte) (got, want []byte, err error) {
		h := digest()
		h.Write(password) //nolint:errcheck // never fails
		h.Write(raw[n:])  //nolint:errcheck // never fails
		return h.Sum(nil), raw[:n], nil
	}, nil
}

type saltReader func(string) ([]byte, error)

func rawSalt(s string) ([]byte, error) { return []byte(s), nil }

// parsePBKDF2 reads iterations$salt$hash, where the iterations may be written i=… (PHC).
func parsePBKDF2(digest string, parts []string, salts ...saltReader) (foreignHash, error) {
	readSalt := saltReader(anyBase64)
	if len(salts) > 0 {
		readSalt = salts[0]
	}
	h := pbkdf2Digests[digest]
	if h == nil || len(parts) != 3 {
		return nil, ErrHashFormat
	}
	// PHC adds l=, the length, which the hash shows too
	rounds, _, _ := strings.Cut(strings.TrimPrefix(parts[0], "i="), ",")
	n, err := strconv.Atoi(rounds)
	if err != nil || n < 1 || n > maxPBKDF2 {
		return nil, ErrHashFormat
	}
	salt, err := readSalt(parts[1])
	if err != nil || len(salt) == 0 || len(salt) > 128 {
		return nil, ErrHashFormat
	}
	want, err := anyBase64(parts[2])
	if err != nil || len(want) < 16 || len(want) > 64 {
		return nil, ErrHashFormat
	}
	return func(password []byte) ([]byte, []byte, error) {
		got, err := pbkdf2.Key(h, string(password), salt, n, len(want))
		return got, want, err
	}, nil
}

// parseScrypt reads ln=16,r=8,p=1$salt$hash.
func parseScrypt(parts []string) (foreignHash, error) {
	var ln, r, p int
	if len(parts) != 3 {
		return nil, ErrHashFormat
	}
	if n, err := fmt.Sscanf(parts[0], "ln=%d,r=%d,p=%d", &ln, &r, &p); err != nil || n != 3 ||
		parts[0] != fmt.Sprintf("ln=%d,r=%d,p=%d", ln, r, p) {
		return nil, ErrHashFormat
	}
	if ln < 1 || ln > 20 || r < 1 || r > 64 || p < 1 || p > 16 || (r<<ln)/8 > maxScryptKiB || p*r<<ln > maxScryptWork || bits.UintSize < 64 {
		return nil, ErrHashFormat
	}
	salt, err := anyBase64(parts[1])
	if err != nil || len(salt) > 128 {
		return nil, ErrHashFormat
	}
	want, err := anyBase64(parts[2])
	if err != nil || len(want) < 16 || len(want) > 64 {
		return nil, ErrHashFormat
	}
	return func(password []byte) ([]byte, []byte, error) {
		got, err := scrypt.Key(password, salt, 1<<ln, r, p, len(want))
		return got, want, err
	}, nil
}

// anyBase64 reads Base64 with or without padding, of either alphabet, with passlib's . for +.
func anyBase64(s string) ([]byte, error) {
	s = strings.NewReplacer("-", "+", "_", "/", ".", "+").Replace(strings.TrimRight(s, "="))
	return base64.RawStdEncoding.DecodeString(s)
}

// unwrap removes what LDAP servers put around a hash of another kind: {CRYPT}$2b$…, {ARGON2}$argon2id$….
func unwrap(phc string) string {
	if m := schemePrefix.FindStringSubmatch(phc); m != nil {
		switch rest := phc[len(m[0]):]; strings.ToUpper(m[1]) {
		case "CRYPT", "BCRYPT", "BLF-CRYPT", "ARGON2", "ARGON2ID":
			if strings.HasPrefix(rest, "$") {
				return rest
			}
		}
	}
	return phc
}

// verifyForeign is Verify for a hash of another system. A cheap hash takes as long as an Argon2id hash if the password
// is wrong; if it is right, the caller makes a new hash.
func (h *Hasher) verifyForeign(ctx context.Context, check foreignHash, password string) (bool, error) {
	var got, want []byte
	var unusable error
	if err := h.compute(ctx, func(*argon2id.Memory) { got, want, unusable = check([]byte(password)) }); err != nil {
		return false, err
	}
	if unusable != nil && !errors.Is(unusable, errMismatch) {
		return false, ErrHashFormat
	}
	if unusable == nil && subtle.ConstantTimeCompare(got, want) == 1 {
		return true, nil
	}
	return false, h.Waste(ctx, password)
}
