// Package plot draws figures as SVG: panels of lines and areas, and bars. A drawing needs
// nothing else, follows the reader's light or dark setting, and shows light where a viewer
// knows no such setting.
package plot

import (
	"fmt"
	"html"
	"html/template"
	"os"
	"strings"
	"unicode/utf8"
)

// Drawing is a picture. Positions are in units of its width and height, from the top left.
type Drawing struct {
	Title         string
	Width, Height float64

	svg strings.Builder
}

// Frame is a rectangle in a drawing.
type Frame struct{ X, Y, Width, Height float64 }

// Text writes a text. Classes: name, title and head are darker and larger, inside is for a filled
// frame, end and middle are anchors.
func (d *Drawing) Text(x, y float64, class, text string) {
	fmt.Fprintf(&d.svg, `<text x="%.1f" y="%.1f" class="%s">%s</text>`+"\n", x, y, class, html.EscapeString(text))
}

// Rect fills a frame. A reader who points at it sees hover. Classes: a color, or bad.
func (d *Drawing) Rect(f Frame, class, hover string) {
	if hover != "" {
		hover = "<title>" + html.EscapeString(hover) + "</title>"
	}
	fmt.Fprintf(&d.svg, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="%s">%s</rect>`+"\n", f.X, f.Y,
		max(f.Width, 0), f.Height, class, hover)
}

// legend writes names with the colors of their places, and returns its bottom.
func (d *Drawing) legend(names []string) (bottom float64) {
	at, y := 14.0, 14.0

	for i, name := range names {
		d.path(Color(i)+" swatch", fmt.Sprintf("M%.1f %.1fh15", at, y-4))
		d.Text(at+20, y, "name", name)
		at += 40 + 6.5*float64(utf8.RuneCountInString(name)) // rather too wide: the font is the reader's
	}

	return y + 4
}

// Color is the class of the i-th color.
func Color(i int) string { return fmt.Sprintf("k%d", i) }

// colors are light and dark.
var colors = [][2]string{
	{"#2b6cb0", "#6fabea"}, {"#c2611f", "#e39257"}, {"#2f7d5b", "#58b98c"}, {"#8a5bb8", "#b897e2"},
	{"#b83268", "#ef7fa8"}, {"#7a7f2a", "#c3c86a"}, {"#5b6b80", "#93a3ba"}, {"#12888f", "#4cc7cf"},
}

// Style is the style sheet of drawings, for a page that holds some.
var Style = template.CSS(style(0) + "@media (prefers-color-scheme: dark) {\n" + style(1) + "}\n" + `svg text { font: 11px system-ui, sans-serif; stroke: none; }
svg text.name, svg text.title { font-size: 12px; } svg text.title { font-weight: 600; }
svg text.head { font-size: 15px; font-weight: 600; }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
svg .grid { stroke-width: 1; } svg .limit { stroke-width: 1; stroke-dasharray: 4 3; } svg rect { stroke-width: 1; }
svg path { fill: none; stroke-width: 1.8; } svg path.thin { stroke-width: 1; stroke-dasharray: 2 2; }
svg path.swatch { stroke-width: 8; }
svg path.area { stroke-width: 1.4; fill-opacity: .18; } svg rect.band { stroke: none; opacity: .1; }
`)

// style is the part of the style sheet that depends on the scheme, 0 light or 1 dark.
func style(scheme int) string {
	pick := func(light, dark string) string { return [2]string{light, dark}[scheme] }
	var css strings.Builder
	back := pick("#fff", "#14181f")
	fmt.Fprintf(&css, "svg text { fill: %s; } svg text.name, svg text.title, svg text.head { fill: %s; } svg text.inside { fill: %s; }\n",
		pick("#5d6778", "#9aa5b5"), pick("#1d2433", "#e4e8ef"), back)
	fmt.Fprintf(&css, "svg .grid { stroke: %s; } svg .limit { stroke: %s; } svg rect { stroke: %s; } svg rect.back { fill: %s; }\n",
		pick("#d9dee6", "#343c49"), pick("#5d6778", "#9aa5b5"), back, back)

	for i, c := range colors {
		fmt.Fprintf(&css, "svg rect.k%d, svg path.area.k%d { fill: %s; } svg path.k%d { stroke: %s; }\n", i, i,
			c[scheme], i, c[scheme])
	}
	fmt.Fprintf(&css, "svg rect.bad { fill: %s; }\n", pick("#b3261e", "#ff8a80"))

	return css.String()
}

// HTML is the drawing as a part of a page with Style.
func (d *Drawing) HTML() template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`+"\n%s</svg>", d.Width,
		d.Height, html.EscapeString(d.Title), d.svg.String()))
}

// headHeight is the room for the title in a file.
const headHeight = 32

// WriteFile writes the drawing with its title as a file, for documents.
func (d *Drawing) WriteFile(path string) error {
	return os.WriteFile(path, fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g">
<style>%s</style>
<rect class="back" width="100%%" height="100%%"/><text class="head" x="12" y="24">%s</text>
<g transform="translate(0 %d)">
%s</g>
</svg>
`, d.Width, d.Height+headHeight, d.Width, d.Height+headHeight, Style, html.EscapeString(d.Title), headHeight, d.svg.String()), 0o644)
}
