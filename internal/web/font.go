package web

import (
	"embed"
	"fmt"
	"strings"
)

// fontFiles are subsets of Inter, a variable font: pages look the same everywhere. The license is next to them.
//
//go:embed assets/inter/*.woff2
var fontFiles embed.FS

// fonts are the subsets, with the characters for which a browser fetches each.
var fonts = []struct{ name, characters string }{
	{"latin", "U+0000-00FF,U+0131,U+0152-0153,U+02BB-02BC,U+02C6,U+02DA,U+02DC,U+2000-206F,U+20AC,U+2122,U+2191,U+2193,U+2212,U+2215,U+FEFF,U+FFFD"},
	{"latinext", "U+0100-0130,U+0132-0151,U+0154-017F,U+0218-021B,U+1E9E"},
	{"greek", "U+0370-0377,U+037A-037F,U+0384-038A,U+038C,U+038E-03A1,U+03A3-03FF"},
	{"cyrillic", "U+0301,U+0400-045F,U+0490-0491,U+04B0-04B1,U+2116"},
}

// addFonts adds the files of the font, and returns the rules of the stylesheet that name them. A page that comes before
// its font keeps the font of the system, so nothing moves while it is read.
func (a *assets) addFonts() (rules string, err error) {
	var b strings.Builder
	for _, f := range fonts {
		raw, err := fontFiles.ReadFile("assets/inter/" + f.name + ".woff2")
		if err != nil {
			return "", err
		}
		path := a.add("inter"+f.name, "woff2", "font/woff2", raw)
		if f.name == "latin" {
			a.font = path
		}
		fmt.Fprintf(&b, "@font-face{font-family:Inter;font-weight:100 900;font-display:optional;src:url(%s)format(\"woff2\");unicode-range:%s}\n",
			strings.TrimPrefix(path, "/assets/"), f.characters)
	}
	return b.String(), nil
}
