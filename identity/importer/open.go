package importer

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// File opens a file at its beginning. It is called again where a format is read twice.
type File func() (io.Reader, error)

// kind is a system whose exports have persons.
type kind struct {
	files int // how many it takes at most
	open  func(files []File) (Reader, error)
}

// kinds are the kinds of files that Open knows.
var kinds = map[string]kind{
	Keycloak:  {1, one(Keycloak)},
	Authelia:  {1, one(Authelia)},
	Htpasswd:  {1, one(Htpasswd)},
	Dex:       {1, one(Dex)},
	Authentik: {1, one(Authentik)},
	LDIF:      {1, openLDIF},
	Auth0:     {2, openAuth0},
	CSV:       {1, one(CSV)},
}

// Kinds returns the kinds of files that Open knows: systems, and CSV.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// Files returns the maximum number of files in an export of a kind. 0: the kind is not known
func Files(of string) int { return kinds[of].files }

// Open returns a reader of the persons of another system's export: of one file, and for Auth0 of the users and then the
// hashes.
func Open(of string, files ...File) (Reader, error) {
	k, known := kinds[of]
	if !known || len(files) == 0 || len(files) > k.files {
		return nil, fmt.Errorf("the kind of the export or the number of its files is not known: want one of %v", Kinds())
	}
	return k.open(files)
}

// one reads a file once.
func one(format string) func([]File) (Reader, error) {
	return func(files []File) (Reader, error) {
		in, err := files[0]()
		if err != nil {
			return nil, err
		}
		return New(in, format)
	}
}

// openLDIF reads the file twice: groups name their members after the members.
func openLDIF(files []File) (Reader, error) {
	in, err := files[0]()
	if err != nil {
		return nil, err
	}
	groups, err := readMemberships(in)
	if err != nil {
		return nil, err
	}
	if in, err = files[0](); err != nil {
		return nil, err
	}
	r, err := New(in, LDIF)
	if l, ok := r.(*ldifReader); ok {
		l.groups = groups
	}
	return r, err
}

func openAuth0(files []File) (Reader, error) {
	var hashes map[string]string
	if len(files) > 1 {
		in, err := files[1]()
		if err == nil {
			hashes, err = readAuth0Hashes(in)
		}
		if err != nil {
			return nil, fmt.Errorf("the hashes: %w", err)
		}
	}
	in, err := files[0]()
	if err != nil {
		return nil, err
	}
	return newAuth0(in, hashes), nil
}
