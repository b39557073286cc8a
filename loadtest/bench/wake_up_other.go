//go:build unix && !linux

package bench

import "errors"

func measureWakeUp() (WakeUp, error) {
	return WakeUp{}, errors.New("only Linux lets processors be chosen")
}
