/** All tests of the blog in a browser, in one process, so that one blog and one browser serve most of them. */

import "./tests/flows.js";
import "./tests/models.js";
import "./tests/meter.js";
import "./tests/compare.js";
import "./tests/hostile.js";
import "./tests/lab.js";
import "./tests/outage.js";
import "./tests/pages.js";
import "./tests/lesson.js";
import "./tests/reading.js";
