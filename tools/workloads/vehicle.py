"""Counts vehicles: Canny edges over generated traffic instead of a film of a road. usage: vehicle.py DIRECTORY

Each tenth frame is stored as JPEG, edges and the frame itself, beside a log of the count; each is synced by what follows.
"""

import os
import sys

import cv2
import numpy

WIDTH, HEIGHT, FRAMES = 640, 360, 900


def road(draw):
    """Draws what does not move: a street, its lines, and texture that is different everywhere."""
    picture = numpy.full((HEIGHT, WIDTH, 3), (70, 110, 70), numpy.uint8)
    cv2.rectangle(picture, (0, 120), (WIDTH, 300), (90, 90, 90), -1)
    for x in range(0, WIDTH, 80):
        cv2.rectangle(picture, (x, 205), (x + 40, 212), (230, 230, 230), -1)
    return cv2.add(picture, draw.integers(0, 40, picture.shape, dtype=numpy.uint8))


def main():
    place = sys.argv[1]
    draw = numpy.random.default_rng(5)
    still = road(draw)
    vehicles, count, before = [], 0, None
    os.makedirs(os.path.join(place, "frames"))
    with open(os.path.join(place, "count.log"), "w", encoding="ascii") as log:
        for number in range(FRAMES):
            if draw.random() < 0.06:
                lane = int(draw.integers(0, 2))
                colour = [int(c) for c in draw.integers(0, 255, 3)]
                vehicles.append([-80 if lane else WIDTH, 150 if lane else 240, 6 if lane else -7, colour])
            frame = still.copy()
            for vehicle in vehicles:
                x, y, speed, colour = vehicle
                cv2.rectangle(frame, (x, y), (x + 70, y + 34), colour, -1)
                cv2.rectangle(frame, (x + 12, y + 6), (x + 58, y + 18), (200, 220, 230), -1)
                vehicle[0] += speed
            vehicles = [v for v in vehicles if -80 <= v[0] <= WIDTH]
            # A camera that sees nothing returns equal frames.
            if vehicles:
                frame = cv2.add(frame, draw.integers(0, 6, frame.shape, dtype=numpy.uint8))
            edges = cv2.Canny(cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY), 80, 160)
            # The line crosses both lanes; the street alone has some 15 pixels of edges there.
            line = edges[140:280, WIDTH // 2 - 4 : WIDTH // 2 + 4]
            crosses = int(numpy.count_nonzero(line)) > 22
            count += bool(crosses and not before)
            before = crosses
            if number % 10 == 0:
                for kind, picture in (("frame", frame), ("edges", edges)):
                    path = os.path.join(place, "frames", f"{kind}{number:05}.jpg")
                    cv2.imwrite(path, picture)
                log.write(f"{number} {count} {len(vehicles)}\n")
                log.flush()
                os.fsync(log.fileno())
    print(count)


if __name__ == "__main__":
    main()
