package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
)

var (
	//go:embed assets/gatehouse.css
	stylesheet string
	// consoleSheet is for the admin console alone, on top of the other one.
	//go:embed assets/console.css
	consoleSheet string
	//go:embed assets/icon.svg
	iconSVG string
)

const (
	defaultColor = "#3b5bdb"
	textContrast = 4.5 // WCAG 2.2, 1.4.3
	darkContrast = 5.5 // on dark grounds it takes a little more to look the same
)

// palette is the colors of one scheme by the names of their custom properties.
type palette []struct{ name, value string }

// The colors of the stylesheet, listed here so that the brand's color can be compared with them.
var (
	light = palette{
		{"ink", "#171a21"},
		{"ink-soft", "#565d6b"},
		{"paper", "#f4f5f8"},
		{"card", "#ffffff"},
		{"line", "#dfe3ea"},
		{"edge", "#868e9c"},
		{"good", "#1b743c"},
		{"warn", "#835600"},
		{"bad", "#b3261e"},
		{"good-soft", "#e7f6ec"},
		{"warn-soft", "#fdf3dc"},
		{"bad-soft", "#fdecea"},
	}
	dark = palette{
		{"ink", "#eceff4"},
		{"ink-soft", "#a5adbb"},
		{"paper", "#0e1116"},
		{"card", "#171b22"},
		{"line", "#2c323d"},
		{"edge", "#737c8b"},
		{"good", "#6fd598"},
		{"warn", "#eab654"},
		{"bad", "#ff9b92"},
		{"good-soft", "#14291c"},
		{"warn-soft", "#2c230f"},
		{"bad-soft", "#341a19"},
	}
)

func (p palette) get(name string) color {
	for _, c := range p {
		if c.name == name {
			return mustColor(c.value)
		}
	}
	panic("page: no color " + name)
}

// accent returns the brand's color as links and buttons show it in this scheme, and the color of text on it.
func (p palette) accent(brand color) (accent, ink color) {
	white, black := mustColor("#ffffff"), mustColor("#0b0d11")
	ratio := textContrast
	if p.get("card").luminance() < 0.18 {
		ratio = darkContrast
	}
	accent = brand.readable(ratio, p.get("card"), p.get("paper"))
	if contrast(accent, white) >= contrast(accent, black) {
		return accent, white
	}
	return accent, black
}

// themeColor is the color that a browser gives its own controls around a page.
func themeColor(isDark bool) string {
	if isDark {
		return dark.get("card").String()
	}
	return light.get("card").String()
}

func (p palette) css(brand color) string {
	var b strings.Builder
	accent, ink := p.accent(brand)
	fmt.Fprintf(&b, ":root{--accent:%s;--accent-ink:%s", accent, ink)
	for _, c := range p {
		fmt.Fprintf(&b, ";--%s:%s", c.name, c.value)
	}
	b.WriteString("}")
	return b.String()
}

// assets are the files that pages refer to. Their names carry a hash of their content.
type assets struct {
	css, icon, logo string                         // paths
	font            string                         // path of the font that every page needs
	touch           string                         // path
	console         string                         // path of the stylesheet of the admin console
	schemes         [2]string                      // paths of the stylesheet for light alone, and for dark alone
	logoSize        [2]int                         // as displayed: at most 40 pixels high
	scripts         map[string]string              // paths, by their names
	logos           map[LogoKind]map[string]*Image // of the configuration, by the ids of their owners
	files           map[string]file
}

type file struct {
	name, contentType string
	body              []byte
	zipped            func() []byte // body by gzip, of a text
}

// colored has the assets of the color that was last asked for: a reload seldom changes it.
var colored atomic.Pointer[coloredAssets]

type coloredAssets struct {
	assets

	color string
}

func newAssets(b Brand) (*assets, error) {
	of, color := colored.Load(), cmp.Or(b.Color, defaultColor)
	if of == nil || of.color != color {
		made, err := assetsOf(color)
		if err != nil {
			return nil, err
		}
		of = &coloredAssets{*made, color}
		colored.Store(of)
	}
	a := of.assets
	a.files, a.logos = maps.Clone(a.files), map[LogoKind]map[string]*Image{}
	if len(b.Logo) == 0 {
		return &a, nil
	}
	logo, err := checkPicture(b.Logo)
	if err == nil && b.LogoType != "" && b.LogoType != logo.kind {
		err = fmt.Errorf("is %s, not what its type says", logo.kind)
	}
	if err != nil {
		return nil, fmt.Errorf("page: the logo: %w", err)
	}
	a.logo = a.add("logo", strings.TrimPrefix(logo.kind, "image/"), logo.kind, b.Logo)
	a.logoSize = [2]int{max(1, logo.width*40/logo.height), 40}
	return &a, nil
}

// assetsOf returns all that do not come from the configuration, in a color.
func assetsOf(of string) (*assets, error) {
	brand, err := parseColor(of)
	if err != nil {
		return nil, err
	}
	a := &assets{files: map[string]file{}}
	rules, err := a.addFonts()
	if err != nil {
		return nil, err
	}
	css := rules + light.css(brand) + "@media(prefers-color-scheme:dark){" + dark.css(brand) + "}\n" + stylesheet
	a.css = a.add("gatehouse", "css", "text/css; charset=utf-8", []byte(css))
	for i, of := range []palette{light, dark} {
		alone := strings.Replace(rules+of.css(brand)+"\n"+stylesheet, "color-scheme:light dark", "color-scheme:"+schemes[i], 1)
		a.schemes[i] = a.add(schemes[i], "css", "text/css; charset=utf-8", []byte(alone))
	}
	a.console = a.add("console", "css", "text/css; charset=utf-8", []byte(consoleSheet))
	if err := a.addScripts(); err != nil {
		return nil, err
	}
	accent, ink := light.accent(brand)
	icon := strings.NewReplacer("ACCENT", accent.String(), "INK", ink.String()).Replace(iconSVG)
	a.icon = a.add("icon", "svg", "image/svg+xml", []byte(icon))
	if err := a.addDrawings(accent, ink); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *assets) add(name, ext, contentType string, body []byte) string {
	sum := sha256.Sum256(body)
	f := file{name: name + "-" + hex.EncodeToString(sum[:6]) + "." + ext, contentType: contentType, body: body}
	if strings.HasPrefix(contentType, "text/") || ext == "svg" {
		f.zipped = sync.OnceValue(func() []byte { return zip(body) })
	}
	a.files[name] = f
	return "/assets/" + f.name
}

// zip compresses a file. Files are the same for everyone, so their sizes tell no secret, unlike those of pages.
func zip(body []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is valid
	}
	z.Write(body) //nolint:errcheck // a buffer takes everything
	z.Close()     //nolint:errcheck,gosec // likewise
	return b.Bytes()
}

// takesGzip reports whether a request accepts gzip. (RFC 9110 12.5.3)
func takesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, params, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(params), "q="), 64)
			return strings.TrimSpace(params) == "" || err == nil && q > 0
		}
	}
	return false
}

// addLogos adds the pictures of one kind by the ids of their owners. named is how the names of the files begin.
func (a *assets) addLogos(kind LogoKind, named string, logos map[string][]byte) error {
	a.logos[kind] = map[string]*Image{}
	for id, raw := range logos {
		p, err := checkPicture(raw)
		if err != nil {
			return fmt.Errorf("logo of %s %s: %w", named, id, err)
		}
		a.logos[kind][id] = p.size(a.addNamed(named, id, p, raw), logoHeight)
	}
	return nil
}

// addNamed adds a picture under a path that does not reveal the id.
func (a *assets) addNamed(kind, id string, p picture, raw []byte) string {
	sum := sha256.Sum256([]byte(id))
	return a.add(kind+hex.EncodeToString(sum[:6]), strings.TrimPrefix(p.kind, "image/"), p.kind, raw)
}

// Assets serves GET /assets/…: the stylesheet, the icon, the logo. Browsers keep a name with the current hash forever.
// A name with another hash, from a page made before a reload or by another node, gets the current file, which browsers
// must not keep.
func (p *Renderer) Assets() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			p.Error(w, r, http.StatusMethodNotAllowed, "error.method", "")
			return
		}
		path := strings.TrimPrefix(r.URL.Path, "/assets/")
		if name, ok := strings.CutPrefix(path, "ext/"); ok {
			p.serveExtension(w, r, name)
			return
		}
		stem, _, _ := strings.Cut(path, "-")
		f, ok := p.assets.files[stem]
		if !ok && isLogo(stem) {
			var err error
			if f, ok, err = p.logoFile(r.Context(), stem); err != nil {
				p.cfg.Log.Error("logo not read", zap.Error(err))
				p.Error(w, r, http.StatusServiceUnavailable, "error.internal", "")
				return
			}
		}
		if !ok {
			f, ok = p.organisationsNow(r.Context()).files.files[stem]
		}
		if !ok || path == r.URL.Path || strings.Contains(path, "/") {
			p.Error(w, r, http.StatusNotFound, "error.not_found", "")
			return
		}
		keep := "no-cache"
		if path == f.name {
			keep = "public, max-age=31536000, immutable"
		}
		f.serve(w, r, keep)
	})
}

// serve writes the file. keep is its Cache-Control.
func (f file) serve(w http.ResponseWriter, r *http.Request, keep string) {
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	body, tag := f.body, `"`+f.name+`"`
	if f.zipped != nil {
		h.Add("Vary", "Accept-Encoding")
		if takesGzip(r) {
			h.Set("Content-Encoding", "gzip")
			body, tag = f.zipped(), `"`+f.name+`.gz"`
		}
	}
	h.Set("ETag", tag)
	h.Set("Cache-Control", keep)
	if r.Header.Get("If-None-Match") == tag {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body) //nolint:errcheck // the browser went away
}
