// pictures.cpp - a few shapes of SVG, and the two pictures made of them.
#include "pictures.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>

namespace digits {
namespace {

constexpr const char* colours[] = {"#d9660a", "#1f5fbf"};
constexpr const char* ink = "#222";
constexpr const char* pale = "#e3e3e3";

class Svg {
 public:
  Svg(double width, double height) {
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\"" << height
         << "\" viewBox=\"0 0 " << width << ' ' << height
         << "\" font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\">\n";
    rectangle(0, 0, width, height, "#fff");
  }
  void rectangle(double x, double y, double width, double height, const std::string& fill,
                 const std::string& stroke = "none") {
    out_ << "<rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\"" << height
         << "\" fill=\"" << fill << "\" stroke=\"" << stroke << "\"/>\n";
  }
  void line(double x1, double y1, double x2, double y2, const std::string& stroke, double width = 1) {
    out_ << "<line x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2 << "\" stroke=\""
         << stroke << "\" stroke-width=\"" << width << "\"/>\n";
  }
  void polyline(const std::vector<std::pair<double, double>>& points, const std::string& stroke, double width,
                double opacity) {
    out_ << "<polyline fill=\"none\" stroke=\"" << stroke << "\" stroke-width=\"" << width << "\" opacity=\""
         << opacity << "\" stroke-linejoin=\"round\" points=\"";
    for (const auto& [x, y] : points) out_ << x << ',' << y << ' ';
    out_ << "\"/>\n";
  }
  /// anchor: "start", "middle" or "end".
  void text(double x, double y, const std::string& words, double size, const std::string& anchor = "start",
            const std::string& fill = ink, bool bold = false) {
    out_ << "<text x=\"" << x << "\" y=\"" << y << "\" font-size=\"" << size << "\" text-anchor=\"" << anchor
         << "\" fill=\"" << fill << "\"" << (bold ? " font-weight=\"bold\"" : "") << '>' << words
         << "</text>\n";
  }
  std::string finish() {
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  std::ostringstream out_;
};

std::string number(double value, int digits) {
  std::ostringstream out;
  out.setf(std::ios::fixed);
  out.precision(digits);
  out << value;
  return out.str();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// One diagram: a value of every outcome by epoch. `height_of` maps a value to 0 (bottom) … 1 (top).
struct Panel {
  double x, y, width, height;
  std::string title;
  std::vector<std::pair<double, std::string>> ticks;
  double (*height_of)(double);
  std::vector<double> Outcome::*series;

  double across(std::size_t epoch, std::size_t epochs) const {
    return x + width * static_cast<double>(epoch) / static_cast<double>(epochs);
  }
  double up(double value) const { return y + height * (1 - std::clamp(height_of(value), 0.0, 1.0)); }
};

void draw_axes(Svg& svg, const Panel& panel, std::size_t epochs) {
  svg.text(panel.x, panel.y - 14, panel.title, 15, "start", ink, true);
  for (const auto& [value, label] : panel.ticks) {
    const double y = panel.up(value);
    svg.line(panel.x, y, panel.x + panel.width, y, pale);
    svg.text(panel.x - 8, y + 4.5, label, 13, "end");
  }
  const double bottom = panel.y + panel.height;
  for (std::size_t epoch = 0; epoch <= epochs; epoch += 10) {
    const double x = panel.across(epoch, epochs);
    svg.line(x, bottom, x, bottom + 5, ink);
    svg.text(x, bottom + 20, std::to_string(epoch), 13, "middle");
  }
  svg.text(panel.x + panel.width / 2, bottom + 42, "epoch", 14, "middle");
  svg.line(panel.x, bottom, panel.x + panel.width, bottom, ink);
  svg.line(panel.x, panel.y, panel.x, bottom, ink);
}

void draw_series(Svg& svg, const Panel& panel, const Report& report, const std::string& colour) {
  const std::size_t epochs = report.outcomes[0].loss.size();
  std::vector<std::pair<double, double>> middle;
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    std::vector<double> values;
    for (const Outcome& outcome : report.outcomes) values.push_back((outcome.*panel.series)[epoch]);
    middle.emplace_back(panel.across(epoch + 1, epochs), panel.up(median(values)));
  }
  for (const Outcome& outcome : report.outcomes) {
    std::vector<std::pair<double, double>> points;
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
      points.emplace_back(panel.across(epoch + 1, epochs), panel.up((outcome.*panel.series)[epoch]));
    }
    svg.polyline(points, colour, 1, 0.35);
  }
  svg.polyline(middle, colour, 2.5, 1);
}

// An image of 8 x 8 squares, dark on light, with a caption below.
void draw_digit(Svg& svg, double x, double y, double size, std::span<const float> image,
                std::int32_t taken_for, std::int32_t is) {
  const double square = size / side;
  for (std::size_t i = 0; i < image.size(); ++i) {
    const int grey = 255 - static_cast<int>(std::lround(230 * image[i]));
    const std::string level = std::to_string(grey);
    const std::size_t row = i / side, column = i % side;
    svg.rectangle(x + square * static_cast<double>(column), y + square * static_cast<double>(row),
                  square + 0.3, square + 0.3, "rgb(" + level + ',' + level + ',' + level + ')');
  }
  const bool right = taken_for == is;
  svg.rectangle(x, y, size, size, "none", right ? "#bbb" : "#c0201c");
  svg.text(x + size / 2, y + size + 21, std::to_string(taken_for), 19, "middle",
           right ? "#1a7a34" : "#c0201c", true);
  svg.text(x + size / 2, y + size + 38, "is " + std::to_string(is), 13, "middle", "#555");
}

}  // namespace

double median_accuracy(const Report& report) {
  std::vector<double> values;
  for (const Outcome& outcome : report.outcomes) values.push_back(outcome.held_out_accuracy);
  return median(values);
}

std::string draw_curves(std::span<const Report> reports) {
  const std::size_t epochs = reports[0].outcomes[0].loss.size();
  const Panel loss{70,
                   96,
                   380,
                   300,
                   "cross-entropy, mean over an epoch's steps",
                   {{1, "1"}, {0.3, "0.3"}, {0.1, "0.1"}, {0.03, "0.03"}, {0.01, "0.01"}},
                   [](double value) { return (std::log10(value) + 2.2) / 2.5; },
                   &Outcome::loss};
  const Panel accuracy{540,
                       96,
                       380,
                       300,
                       "accuracy on the training rows",
                       {{0.85, "0.85"}, {0.9, "0.90"}, {0.95, "0.95"}, {1, "1.00"}},
                       [](double value) { return (value - 0.82) / 0.19; },
                       &Outcome::accuracy};
  Svg svg(960, 460);
  double legend = 70;
  for (std::size_t k = 0; k < reports.size(); ++k, legend += 470) {
    svg.line(legend, 36, legend + 26, 36, colours[k], 4);
    svg.text(legend + 36, 41,
             reports[k].name + ": median test accuracy " + number(median_accuracy(reports[k]), 3), 15);
  }
  for (const Panel& panel : {loss, accuracy}) {
    draw_axes(svg, panel, epochs);
    for (std::size_t k = 0; k < reports.size(); ++k) draw_series(svg, panel, reports[k], colours[k]);
  }
  return svg.finish();
}

std::string draw_digits(const Digits& digits, const std::string& model, const Outcome& outcome) {
  constexpr std::size_t columns = 12, lines = 2;
  std::vector<std::size_t> some, mistakes;
  for (std::size_t i = 0; i < columns * lines; ++i) some.push_back(i * digits.rows() / (columns * lines));
  for (std::size_t row = 0; row < digits.rows() && mistakes.size() < columns; ++row) {
    if (outcome.predictions[row] != digits.labels[row]) mistakes.push_back(row);
  }
  constexpr double size = 64, step_x = 76, step_y = 118, left = 30;
  Svg svg(left * 2 + columns * step_x - (step_x - size), 500);
  const auto draw = [&](const std::vector<std::size_t>& rows, double top) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t row = i / columns, column = i % columns;
      draw_digit(svg, left + step_x * static_cast<double>(column), top + step_y * static_cast<double>(row),
                 size, digits.image(rows[i]), outcome.predictions[rows[i]], digits.labels[rows[i]]);
    }
  };
  svg.text(left, 38,
           "Test digits as the " + model + " reads them: every " +
               std::to_string(digits.rows() / (columns * lines)) + "th row, first seed",
           16, "start", ink, true);
  draw(some, 56);
  svg.text(left, 330, "Its first mistakes", 16, "start", ink, true);
  draw(mistakes, 348);
  return svg.finish();
}

}  // namespace digits
