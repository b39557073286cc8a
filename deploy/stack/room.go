package stack

import (
	"context"
	"path/filepath"
	"time"

	"github.com/liquida/liquida/platform/keys"
)

// The control room is a page that shows the stack and acts on it. The stack does not need it: nobody
// waits for it, and that it ends is no failure.

func (s *Stack) roomTokenFile() string { return filepath.Join(s.config.Dir, "room-token") }

// roomOpens is how long Up waits for the room: its caller tells where it is.
const roomOpens = 10 * time.Second

// openRoom starts the room, unless it runs. In the foreground it does not wait for it.
func (s *Stack) openRoom(ctx context.Context) error {
	if !s.has(Room) {
		if err := keys.MakePassword(s.roomTokenFile()); err != nil {
			return err
		}
		if err := s.add(Room); err != nil {
			return err
		}
	}
	p, err := s.process(Room)
	if err == nil {
		err = s.apply(ctx, p)
	}
	if err != nil || p.running() {
		return err
	}
	if err := s.StartProcess(Room); err != nil || !s.detached {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, roomOpens)
	defer cancel()
	return s.WaitReady(ctx, Room)
}

func (s *Stack) specifyRoom(p *spec) {
	p.path, p.arguments = filepath.Join(s.config.BinDir, "loadtest"), []string{"room", "--dir", s.config.Dir}
	p.address = s.addresses.of(Room)
	p.optional = true
	p.env = append(p.env, "ROOM_ADDRESS="+p.address, "ROOM_TOKEN_FILE="+s.roomTokenFile(),
		"SIMULATOR_URL="+s.SimulatorURL(), "CLIENT_KEYS_DIR="+s.keysDir())
	if s.config.KafkaSecured { // the room itself may not write; this is for the load that it sends on request
		p.env = append(p.env, "LOAD_KAFKA_SASL_USER=loadtest", "LOAD_KAFKA_SASL_PASSWORD_FILE="+s.passwordFile("loadtest"))
	}
	p.ready = httpReady("http://" + p.address + "/")
}

// RoomURL returns the URL of the control room, with the token of those who may look and act.
func (s *Stack) RoomURL() (string, error) {
	token, err := keys.ReadPassword(s.roomTokenFile())
	if err != nil {
		return "", err
	}
	return "http://" + s.addresses.of(Room) + "/#token=" + token, nil
}

// RoomURL returns the URL of the control room of the running stack in dir, or nothing if it has none.
func RoomURL(dir string) (string, error) {
	s, err := reopen(dir)
	if err != nil {
		return "", err
	}
	defer s.launcher.close()
	if !s.has(Room) {
		return "", nil
	}
	return s.RoomURL()
}
