package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"go.uber.org/zap"
)

// Logo describes the picture of a client that is not in the configuration.
type Logo struct {
	// Name is that of its file: it begins with the LogoKey of the client and changes with the picture.
	Name          string
	Type          string // media type
	Width, Height int    // pixels
}

// Logos has the pictures of clients that are not in the configuration. authz implements it.
type Logos interface {
	// Logo returns the picture of a client, if it has one.
	Logo(ctx context.Context, client string) (Logo, bool, error)
	// LogoFile returns the picture of the client of a key, with its content.
	LogoFile(ctx context.Context, key string) (Logo, []byte, bool, error)
}

// logoPrefix begins the names of pictures that are not in the configuration.
const logoPrefix = "app"

// LogoKey returns the key of a client in the paths of pictures. It does not reveal the id.
func LogoKey(client string) string {
	sum := sha256.Sum256([]byte(client))
	return logoPrefix + hex.EncodeToString(sum[:16])
}

// isLogo reports whether LogoKey can have returned a key.
func isLogo(key string) bool {
	raw, found := strings.CutPrefix(key, logoPrefix)
	sum, err := hex.DecodeString(raw)
	return found && err == nil && len(sum) == 16
}

// NewLogo describes a picture of a client. Errors are those of CheckPicture.
func NewLogo(client string, raw []byte) (Logo, error) {
	p, err := checkPicture(raw)
	if err != nil {
		return Logo{}, err
	}
	sum := sha256.Sum256(raw)
	name := LogoKey(client) + "-" + hex.EncodeToString(sum[:6]) + "." + strings.TrimPrefix(p.kind, "image/")
	return Logo{Name: name, Type: p.kind, Width: p.width, Height: p.height}, nil
}

// Image returns the picture as pages show it.
func (l Logo) Image() *Image {
	return picture{l.Type, l.Width, l.Height}.size("/assets/"+l.Name, clientLogo)
}

// SetLogos sets where the pictures of clients are that are not in the configuration. Call SetLogos before the renderer
// is used, if at all.
func (p *Renderer) SetLogos(from Logos) { p.logos = from }

// DeclaredLogo returns the picture that a client has in the configuration. nil: none
func (p *Renderer) DeclaredLogo(client string) *Image { return p.assets.logos[client] }

// LogoOf returns the picture of a client. nil: none
func (p *Renderer) LogoOf(ctx context.Context, client string) *Image {
	if declared := p.assets.logos[client]; declared != nil || p.logos == nil || client == "" {
		return declared
	}
	l, found, err := p.logos.Logo(ctx, client)
	if err != nil { // the page is more important
		p.cfg.Log.Error("logo not read", zap.Error(err))
	}
	if err != nil || !found {
		return nil
	}
	return l.Image()
}

func (p *Renderer) logoFile(ctx context.Context, key string) (file, bool, error) {
	if p.logos == nil {
		return file{}, false, nil
	}
	l, raw, found, err := p.logos.LogoFile(ctx, key)
	return file{name: l.Name, contentType: l.Type, body: raw}, found, err
}
