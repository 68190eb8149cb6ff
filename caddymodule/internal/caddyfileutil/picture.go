package caddyfileutil

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// ReadPicture returns the picture of an option, or nil. The file is read only when the configuration is loaded: a
// Caddyfile can be adapted on another machine. Without the file there is no picture.
func ReadPicture(r *Resolver, option, name string) []byte {
	file, ok := r.Text(option, name, nil)
	switch {
	case !ok || r.Adapting():
		return nil
	case r.Verbatim(): // a request must not read the server's files
		r.Fail("%s: only the configuration itself can name pictures", option)
		return nil
	}
	raw, _, err := ReadLogo(file)
	if err == nil {
		err = web.CheckPicture(raw)
	}
	if err != nil {
		r.Lack(Fault{Option: option, Reason: fmt.Sprintf("%s: there is no picture: %v", option, err), Fix: mendPicture})
		return nil
	}
	return raw
}

const mendPicture = "write the path of a PNG, JPEG or GIF file, from the directory that Caddy runs in, and run `caddy reload --force`"

// ReadLogo returns a picture and its media type. The type follows from the file's name: the operator vouches for it.
func ReadLogo(file string) ([]byte, string, error) {
	kinds := map[string]string{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif"}
	kind, ok := kinds[strings.ToLower(filepath.Ext(file))]
	if !ok {
		return nil, "", fmt.Errorf("%s is not a .png, .jpg or .gif file", file)
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, "", err
	}
	if info.Size() == 0 || info.Size() > web.MaxPicture {
		return nil, "", fmt.Errorf("want a picture of 1 byte to %d KiB", web.MaxPicture>>10)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, "", err
	}
	return raw, kind, nil
}
