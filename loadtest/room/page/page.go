// Package page holds the page of the control room, and writes reports: the same page with one
// picture inside.
package page

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
)

// Files hold nothing secret.
//
//go:embed index.html room.css room.js favicon.svg
var Files embed.FS

// Frozen returns one HTML file that shows picture, a room.Picture, without a room: style, script
// and picture are inside it, so it opens from a disk and can be sent to somebody.
func Frozen(picture any) ([]byte, error) {
	frozen, err := json.Marshal(picture) // it escapes <, so that no text can end the element
	if err != nil {
		return nil, fmt.Errorf("page: encode the picture: %w", err)
	}

	html, err := Files.ReadFile("index.html")
	if err != nil {
		return nil, err
	}

	for _, part := range []struct{ reference, before, file, after string }{
		{reference: `<link rel="icon" href="favicon.svg">`}, // a report loads nothing
		{`<link rel="stylesheet" href="room.css">`, "<style>\n", "room.css", "</style>"},
		{`<script src="room.js"></script>`, `<script type="application/json" id="frozen">` + string(frozen) +
			"</script>\n<script>\n", "room.js", "</script>"},
	} {
		var content []byte
		if part.file != "" {
			if content, err = Files.ReadFile(part.file); err != nil {
				return nil, err
			}
		}

		if bytes.Count(html, []byte(part.reference)) != 1 {
			return nil, fmt.Errorf("page: index.html must have %q once", part.reference)
		}
		inside := part.before + string(content) + part.after
		html = bytes.Replace(html, []byte(part.reference), []byte(inside), 1)
	}

	return html, nil
}
