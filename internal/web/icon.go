package web

import (
	"bytes"
	"encoding/binary"
	"image"
	stdcolor "image/color"
	"image/png"
	"net/http"
	"sync/atomic"
)

const (
	faviconSize = 32
	touchSize   = 180 // pixels that phones show of a page on their home screen
)

// drawIcon draws icon.svg in a square of size pixels. square leaves its corners, which phones round themselves.
func drawIcon(size int, ground, ink color, square bool) *image.NRGBA {
	fineness := 2 + 64/size // points that are looked at in a row and a column of a pixel
	out := image.NewNRGBA(image.Rect(0, 0, size, size))
	for py := range size {
		for px := range size {
			plate, arch := 0, 0
			for i := range fineness * fineness {
				x := (float64(px) + (float64(i%fineness)+.5)/float64(fineness)) * 32 / float64(size)
				y := (float64(py) + (float64(i/fineness)+.5)/float64(fineness)) * 32 / float64(size)
				switch {
				case inArch(x, y):
					arch++
				case square || inPlate(x, y):
					plate++
				}
			}
			mix := func(part int) uint8 {
				return uint8(255*(ground[part]*float64(plate)+ink[part]*float64(arch))/float64(max(plate+arch, 1)) + .5)
			}
			alpha := uint8(255 * (plate + arch) / (fineness * fineness))
			out.SetNRGBA(px, py, stdcolor.NRGBA{R: mix(0), G: mix(1), B: mix(2), A: alpha})
		}
	}
	return out
}

// inPlate reports whether a point of the drawing is within the rounded square.
func inPlate(x, y float64) bool {
	const r = 7
	dx, dy := max(r-x, x-(32-r), 0), max(r-y, y-(32-r), 0)
	return dx*dx+dy*dy <= r*r
}

// inArch reports whether a point of the drawing is within the arch.
func inArch(x, y float64) bool {
	within := func(r float64) bool {
		dx, dy := x-16, min(y-15.5, 0)
		return dx*dx+dy*dy < r*r
	}
	return y < 25 && within(9) && !within(4)
}

// drawings are the pictures of the icon in two colors.
type drawings struct {
	ground, ink color
	favicon     []byte
	touch       []byte
}

// lastDrawings are the newest. Drawing takes longer than everything else at a start or reload, and colors seldom
// change.
var lastDrawings atomic.Pointer[drawings]

func draw(ground, ink color) (*drawings, error) {
	if d := lastDrawings.Load(); d != nil && d.ground == ground && d.ink == ink {
		return d, nil
	}
	var small, large bytes.Buffer
	if err := png.Encode(&small, drawIcon(faviconSize, ground, ink, false)); err != nil {
		return nil, err
	}
	if err := png.Encode(&large, drawIcon(touchSize, ground, ink, true)); err != nil {
		return nil, err
	}
	d := &drawings{ground: ground, ink: ink, favicon: icoFile(small.Bytes()), touch: large.Bytes()}
	lastDrawings.Store(d)
	return d, nil
}

// addDrawings adds the icon for browsers and phones that do not read SVG.
func (a *assets) addDrawings(ground, ink color) error {
	d, err := draw(ground, ink)
	if err != nil {
		return err
	}
	a.add("favicon", "ico", "image/x-icon", d.favicon)
	a.touch = a.add("touch", "png", "image/png", d.touch)
	return nil
}

// icoFile returns an ICO file with one picture in PNG.
func icoFile(picture []byte) []byte {
	out := []byte{0, 0, 1, 0, 1, 0, faviconSize, faviconSize, 0, 0, 1, 0, 32, 0}
	out = binary.LittleEndian.AppendUint32(out, uint32(len(picture)))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(out)+4))
	return append(out, picture...)
}

// FaviconPath is the path at which browsers look for an icon that no page names.
const FaviconPath = "/favicon.ico"

// ShowFavicon serves GET /favicon.ico.
func (p *Renderer) ShowFavicon(w http.ResponseWriter, r *http.Request) {
	p.assets.files["favicon"].serve(w, r, "public, max-age=86400")
}
