package secret

import (
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // hashes that others have made
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-crypt/x/argon2"
	"github.com/go-crypt/x/crypt"
	"github.com/go-crypt/x/yescrypt"
	"golang.org/x/crypto/bcrypt"
)

// Hashes of crypt(3) and of others in its form: SHA-crypt ($5$, $6$), yescrypt ($y$), Apache's MD5 ($apr1$), bcrypt of
// a SHA-256 (passlib's $bcrypt-sha256$), and the kinds of Argon2 that no one should choose any more. The cost is
// checked before anything is computed: at most about half a second of one core.
const (
	minSHARounds = 1000 // crypt(3) computes no fewer
	maxSHARounds = 800_000
	plainRounds  = 5000 // of a SHA-crypt that names none
	maxCryptSalt = 16
	maxYesKiB    = 64 << 10 // 128 * r * N bytes
)

// errMismatch says that bcrypt has found another password.
var errMismatch = errors.New("another password")

var (
	shaCrypt     = regexp.MustCompile(`^\$([56])\$(?:rounds=([0-9]{4,6})\$)?([^$:\n]{0,16})\$([./0-9A-Za-z]{43}|[./0-9A-Za-z]{86})$`)
	yesCrypt     = regexp.MustCompile(`^\$y\$([./0-9A-Za-z]{3,8})\$([./0-9A-Za-z]{1,86})\$([./0-9A-Za-z]{43})$`)
	apacheMD5    = regexp.MustCompile(`^\$apr1\$([^$:\n]{1,8})\$([./0-9A-Za-z]{22})$`)
	bcryptSHA256 = regexp.MustCompile(`^\$bcrypt-sha256\$v=2,t=(2[by]),r=([0-9]{1,2})\$([./0-9A-Za-z]{22})\$([./0-9A-Za-z]{31})$`)
)

// parseCrypt reads a hash of crypt(3) or of its kin.
func parseCrypt(text string) (foreignHash, error) {
	if m := shaCrypt.FindStringSubmatch(text); m != nil {
		return parseSHACrypt(m)
	}
	if m := yesCrypt.FindStringSubmatch(text); m != nil {
		return parseYescrypt(m)
	}
	if m := apacheMD5.FindStringSubmatch(text); m != nil {
		return func(password []byte) (got, want []byte, err error) {
			return apr1(password, []byte(m[1])), []byte(m[2]), nil
		}, nil
	}
	if m := bcryptSHA256.FindStringSubmatch(text); m != nil {
		return parseBcryptSHA256(m)
	}
	if strings.HasPrefix(text, "$argon2i$") || strings.HasPrefix(text, "$argon2d$") {
		return parseOldArgon2(text)
	}
	return nil, ErrHashFormat
}

// parseSHACrypt reads $6$rounds=N$salt$hash. ("Unix crypt using SHA-256 and SHA-512", U. Drepper, 0.6)
func parseSHACrypt(m []string) (foreignHash, error) {
	digest, rounds := func() hash.Hash { return sha512.New() }, plainRounds
	if m[1] == "5" {
		digest = sha256.New
	}
	if m[2] != "" {
		n, err := strconv.Atoi(m[2])
		if err != nil || n < minSHARounds || n > maxSHARounds {
			return nil, ErrHashFormat
		}
		rounds = n
	}
	if (m[1] == "5") != (len(m[4]) == 43) {
		return nil, ErrHashFormat
	}
	return func(password []byte) (got, want []byte, err error) {
		return crypt.KeySHACrypt(digest, password, []byte(m[3]), rounds), []byte(m[4]), nil
	}, nil
}

// parseYescrypt reads $y$params$salt$hash. (yescrypt(5))
func parseYescrypt(m []string) (foreignHash, error) {
	flags, ln, r, err := yescrypt.DecodeSetting([]byte(m[1]))
	if err != nil || flags == 0 || ln < 1 || ln > 24 || r < 1 || r > 64 || (r<<ln)/8 > maxYesKiB {
		return nil, ErrHashFormat
	}
	salt, want := yescrypt.Decode64([]byte(m[2])), yescrypt.Decode64([]byte(m[3]))
	if len(salt) == 0 || len(want) != sha256.Size {
		return nil, ErrHashFormat
	}
	return func(password []byte) ([]byte, []byte, error) {
		got, err := yescrypt.Key(password, salt, 1<<ln, r, 1, len(want))
		return got, want, err
	}, nil
}

// parseBcryptSHA256 reads passlib's $bcrypt-sha256$v=2,t=2b,r=12$salt$hash: bcrypt of the HMAC of the password under
// the salt. (passlib 1.7.4, passlib.hash.bcrypt_sha256)
func parseBcryptSHA256(m []string) (foreignHash, error) {
	cost, err := strconv.Atoi(m[2])
	if err != nil || cost < bcrypt.MinCost || cost > maxBcryptCost {
		return nil, ErrHashFormat
	}
	whole := fmt.Sprintf("$%s$%02d$%s%s", m[1], cost, m[3], m[4])
	return func(password []byte) (got, want []byte, err error) {
		mac := hmac.New(sha256.New, []byte(m[3]))
		mac.Write(password) //nolint:errcheck // never fails
		text := base64.StdEncoding.EncodeToString(mac.Sum(nil))
		switch err := bcrypt.CompareHashAndPassword([]byte(whole), []byte(text)); {
		case err == nil:
			return nil, nil, nil
		case errors.Is(err, bcrypt.ErrMismatchedHashAndPassword):
			return nil, nil, errMismatch
		default:
			return nil, nil, err
		}
	}, nil
}

// parseOldArgon2 reads Argon2i and Argon2d as parseArgon2id reads Argon2id, and within the same bounds.
func parseOldArgon2(text string) (foreignHash, error) {
	kind := text[:len("$argon2i")]
	p, want, err := parseArgon2id("$argon2id" + text[len(kind):])
	if err != nil {
		return nil, err
	}
	return func(password []byte) (got, _ []byte, err error) {
		key := argon2.IKey
		if kind == "$argon2d" {
			key = argon2.DKey
		}
		return key(password, p.salt, p.iterations, p.memory, uint32(p.lanes), p.length), want, nil
	}, nil
}

// apr1 computes the hash of Apache's htpasswd -m: the MD5-crypt of FreeBSD with another magic word.
// (Apache HTTP Server, "Password Formats"; Apache Portable Runtime, apr_md5.c)
func apr1(password, salt []byte) []byte {
	const magic = "$apr1$"
	sum := func(parts ...[]byte) []byte {
		h := md5.New() //nolint:gosec // see above
		for _, p := range parts {
			h.Write(p) //nolint:errcheck // never fails
		}
		return h.Sum(nil)
	}
	inner := sum(password, salt, password)
	begin := [][]byte{password, []byte(magic), salt}
	for n := len(password); n > 0; n -= md5.Size {
		begin = append(begin, inner[:min(n, md5.Size)])
	}
	for n := len(password); n > 0; n >>= 1 {
		if n&1 == 1 {
			begin = append(begin, []byte{0})
		} else {
			begin = append(begin, password[:1])
		}
	}
	state := sum(begin...)
	for i := range 1000 {
		first, last := state, password
		if i&1 == 1 {
			first, last = password, state
		}
		parts := [][]byte{first}
		if i%3 != 0 {
			parts = append(parts, salt)
		}
		if i%7 != 0 {
			parts = append(parts, password)
		}
		state = sum(append(parts, last)...)
	}
	return cryptText(state)
}

// cryptText writes an MD5 as crypt(3) does: 6 bits a character, from bytes in an order of its own.
func cryptText(sum []byte) []byte {
	const alphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	text := make([]byte, 0, 22)
	put := func(bits uint, n int) {
		for range n {
			text = append(text, alphabet[bits&63])
			bits >>= 6
		}
	}
	for i := range 5 {
		third := i + 12
		if i == 4 {
			third = 5
		}
		put(uint(sum[i])<<16|uint(sum[i+6])<<8|uint(sum[third]), 4)
	}
	put(uint(sum[11]), 2)
	return text
}
