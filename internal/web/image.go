package web

import (
	"bytes"
	"image"
	_ "image/gif"  // logos
	_ "image/jpeg" // logos
	_ "image/png"  // logos

	"github.com/gatehouse-id/gatehouse/internal/coded"
)

// MaxPicture is the size of a logo or icon, in bytes.
const MaxPicture = 64 << 10

// ErrPictureSize refuses a larger one.
var ErrPictureSize = coded.Errorf("picture_size", "max", "the picture is larger than %d KiB", MaxPicture>>10)

// ErrNoPicture refuses what is not one of a kind that pages show.
var ErrNoPicture = coded.New("picture", "is not a PNG, JPEG or GIF picture")

const maxLogoSide = 2048 // pixels: a small file can unpack to a huge image

// picture is a raster image that pages show.
type picture struct {
	kind          string // media type
	width, height int    // pixels
}

// checkPicture accepts raster images only, because an SVG can carry script. They must be complete, with nothing after
// the end that another program could interpret. The size is checked before anything is unpacked.
func checkPicture(raw []byte) (picture, error) {
	if len(raw) > MaxPicture {
		return picture{}, ErrPictureSize
	}
	cfg, format, err := image.DecodeConfig(bytes.NewReader(raw))
	if err != nil {
		return picture{}, ErrNoPicture
	}
	if cfg.Width < 1 || cfg.Height < 1 || cfg.Width > maxLogoSide || cfg.Height > maxLogoSide {
		return picture{}, coded.Errorf("picture_pixels", "max", "the picture is larger than %d pixels", maxLogoSide)
	}
	if !bytes.HasSuffix(raw, ends[format]) {
		return picture{}, coded.New("picture_broken", "there is data after the end of the picture")
	}
	if _, _, err := image.Decode(bytes.NewReader(raw)); err != nil {
		return picture{}, coded.New("picture_broken", "the picture is broken")
	}
	return picture{"image/" + format, cfg.Width, cfg.Height}, nil
}

// ends are the last bytes of each kind of picture. (PNG 11.2.5 with its length and CRC, GIF 89a 27, JPEG B.1.1.3)
var ends = map[string][]byte{"png": []byte("\x00\x00\x00\x00IEND\xaeB`\x82"), "gif": []byte(";"), "jpeg": []byte("\xff\xd9")}

// CheckPicture returns an error unless raw is a PNG, JPEG or GIF picture of at most 64 KiB and 2048 pixels in width and
// height.
func CheckPicture(raw []byte) error {
	_, err := checkPicture(raw)
	return err
}

// Image is a picture with its path and the size in which it is displayed.
type Image struct {
	Path          string
	Width, Height int
}

// Within returns the image in a square of this side.
func (i *Image) Within(side int) *Image {
	most := max(i.Width, i.Height)
	return &Image{i.Path, max(1, i.Width*side/most), max(1, i.Height*side/most)}
}

// size returns the picture displayed at most this high, and at most six times as wide.
func (p picture) size(path string, height int) *Image {
	w, h := p.width*height/p.height, height
	if w > 6*height {
		w, h = 6*height, max(1, p.height*6*height/p.width)
	}
	return &Image{path, max(1, w), h}
}
