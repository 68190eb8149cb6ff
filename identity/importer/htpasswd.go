package importer

import (
	"bufio"
	"strings"
)

// htpasswdReader reads files of Apache's htpasswd, which nginx and Traefik read too: a name and a hash on each line.
type htpasswdReader struct{ lines }

func newHtpasswd(r *bufio.Reader) *htpasswdReader { return &htpasswdReader{lines{in: r}} }

// Next implements Reader. It skips empty lines and comments.
func (h *htpasswdReader) Next() (p Person, line int, err error) {
	for {
		raw, err := h.next()
		if err != nil {
			return p, h.number, err
		}
		text := strings.TrimSpace(string(raw))
		if text == "" || text[0] == '#' {
			continue
		}
		name, hash, ok := strings.Cut(text, ":")
		hash, _, _ = strings.Cut(hash, ":") // htdigest and passwd(5) go on
		switch {
		case !ok || name == "":
			return p, h.number, &LineError{h.number, "is not a name and a hash with : between them"}
		case !isHash(hash):
			return p, h.number, &LineError{
				h.number,
				"the hash is of crypt(3) with DES, of plain MD5 or unknown: such a password cannot be checked safely; " +
					"create the person without it, and send a link for a new one",
			}
		}
		return Person{Username: name, PasswordHash: hash}, h.number, nil
	}
}
